-- The part of a publish that shows events as they go by, to nodes that watch the lane
-- and to whoever listens to an event's address. Nobody there: show is nil, and it costs nothing.
-- ARGV  after the bodies, unless events are not to be published at all:
--       1 whether to publish without asking who listens: on a Cluster they may be elsewhere
--       2 what the channels begin with
local show, tell
do
  local always, prefix = ARGV[body0 + nE + 1], ARGV[body0 + nE + 2]
  local shown, most = {}, 65536
  local watched, listened = m[3] == '1', always == '1' -- to all channels, or to those that are true in it
  local asked = tonumber(m[4]) or 0 -- when nobody listened to one of the channels

  -- A pattern may match any channel. Channels are all gone through to find ours, and
  -- others may have many: when nobody listens, that is good for 100 ms. A user who may
  -- not ask hears nothing.
  local function ask()
    local patterns = redis.pcall('PUBSUB', 'NUMPAT')
    if type(patterns) ~= 'number' then return false end
    if patterns > 0 then return true end
    if now - asked < 100 then return false end
    local found, channels = false, redis.pcall('PUBSUB', 'CHANNELS', prefix .. '*')
    for i = 1, #channels do
      found = found or {}
      found[channels[i]] = true
    end
    if not found then
      asked = now
      tell = function() call('HSET', T, 'asked', str(now)) end
    end
    return found
  end
  if always == '0' then listened = ask() end

  -- An event's body, without what begins what is stored.
  local function bodyOf(x)
    local body = ARGV[body0 + x[1]]
    return string.sub(body, string.byte(body) == 3 and 18 or 2)
  end

  -- A lane that nobody watches any more is marked so.
  local function send(parts)
    local got = redis.pcall('SPUBLISH', T .. ':live', table.concat(parts))
    if type(got) == 'number' and got > 0 then return end
    watched = false
    call('HDEL', T, 'live')
  end

  -- now, then of each event its seq, prev, length and body
  local function toWatchers()
    local parts, size = {struct.pack('<d', now)}, 0
    for i = 1, #shown do
      local x = shown[i]
      local body = bodyOf(x)
      parts[#parts + 1] = struct.pack('<ddI4', x[2], x[3], #body)
      parts[#parts + 1] = body
      size = size + #body
      if i == #shown or size >= most then
        send(parts)
        if not watched then return end
        parts, size = {parts[1]}, 0
      end
    end
  end

  local function toListeners()
    for i = 1, #shown do
      local x = shown[i]
      local read, channel, json = pcall(wired, bodyOf(x), x[2], x[3], prefix, listened)
      if read and channel then redis.pcall('PUBLISH', channel, json) end
    end
  end

  if watched or listened then
    local note = tell
    function show(e, seq, prev) shown[#shown + 1] = {e, seq, prev} end
    function tell()
      if note then note() end
      if watched and #shown > 0 then toWatchers() end
      if listened then toListeners() end
    end
  end
end

-- The part of a publish that shows events as they go by, to nodes that watch the lane
-- and to whoever listens to an event's address. Nobody there: show is nil, and it costs nothing.
-- ARGV  after the bodies, unless events are not to be published at all:
--       1 whether to publish to channels that nobody seems to listen to, for on a Cluster
--         it may be elsewhere  2 channel of each event  3… channels
local show, tell
do
  local first, shown, most = body0 + nE, {}, 65536
  local watched, listened = m[14] == '1', false -- to all channels, or to those that are true in it

  -- Patterns may match any channel. A user who may not ask hears nothing.
  local function ask()
    local patterns = redis.pcall('PUBSUB', 'NUMPAT')
    if type(patterns) ~= 'number' then return false end
    if patterns > 0 then return true end
    local found = false
    for i = first + 3, #ARGV, 1000 do
      local counts = redis.pcall('PUBSUB', 'NUMSUB', unpack(ARGV, i, math.min(i + 999, #ARGV)))
      for j = 2, #counts, 2 do
        if counts[j] > 0 then
          found = found or {}
          found[i - first - 3 + j / 2] = true
        end
      end
    end
    return found
  end
  if ARGV[first + 1] then listened = ARGV[first + 1] == '1' or ask() end

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
      local body = ARGV[body0 + x[1]]
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
      local channel = struct.unpack('<I4', ARGV[first + 2], 4 * x[1] - 3)
      if channel > 0 and (listened == true or listened[channel]) then
        local read, json = pcall(wired, ARGV[body0 + x[1]], x[2], x[3])
        if read then redis.pcall('PUBLISH', ARGV[first + 2 + channel], json) end
      end
    end
  end

  if watched or listened then
    function show(e, seq, prev) shown[#shown + 1] = {e, seq, prev} end
    function tell()
      if watched and #shown > 0 then toWatchers() end
      if listened then toListeners() end
    end
  end
end

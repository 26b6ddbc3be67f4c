-- What the scripts of a lane share. Each declares two keys of its slot, one
-- that always exists and one that never does, and derives the others from the
-- first: while a slot moves, Redis then refuses the call whole (TRYAGAIN).
-- KEYS  1 the lane's own key  2 a key that never exists
-- ARGV  1 store id  2 now in ms; 0 for the server's clock; -1 if time does not matter
-- Numbers stay below 2^53, where Lua's are exact, and become text through str only:
-- it is the quickest way, and Lua's own would cut digits off.
local T = KEYS[1]
local call, floor = redis.call, math.floor
local now, off, gone -- the lane's time and clock offset; how many removed queues wait for the sweep
local hints = {}     -- due entries that this script made

local function str(x) return string.format('%d', x) end

-- Call a command with a list of any length, 1,000 arguments at a time.
local function bulk(command, key, list)
  for i = 1, #list, 1000 do
    call(command, key, unpack(list, i, math.min(i + 999, #list)))
  end
end

-- The same for commands that answer one value per argument.
local function gather(command, key, list)
  if #list <= 1000 then
    return #list == 0 and {} or call(command, key, unpack(list))
  end
  local all = {}
  for i = 1, #list, 1000 do
    local part = call(command, key, unpack(list, i, math.min(i + 999, #list)))
    for j = 1, #part do all[i + j - 1] = part[j] end
  end
  return all
end

-- Read fields of the lane's record, from the fifth on, and set its time; nil if it is missing.
local function lane(...)
  local m = call('HMGET', T, 'id', 't', 'off', 'gone', ...)
  if m[1] ~= ARGV[1] then return nil end
  local t, given = tonumber(m[2]) or 0, tonumber(ARGV[2])
  off, gone = tonumber(m[3]) or 0, tonumber(m[4]) or 0
  if given ~= 0 then
    now = math.max(t, given)
    return m
  end
  local clock = call('TIME')
  local machine = tonumber(clock[1]) * 1000 + floor(tonumber(clock[2]) / 1000)
  if machine + off < t - 1000 then off = t - machine end
  now = math.max(t, machine + off)
  return m
end

-- Write the lane's time and further fields.
local function keep(...) call('HSET', T, 't', str(now), 'off', off, ...) end

-- A hint may be lost, so a user without the channel's permission loses it
-- instead of failing a script that has begun to write.
local function hint(text) redis.pcall('SPUBLISH', T .. ':hint', text) end

-- A queue's record in the lane, or nil if the lane does not know its uid.
local function queue(u)
  local key = T .. ':q:' .. u
  local f = call('HMGET', key, 'version', 'max', 'ready', 'back', 'wanted', 'acked', 'spent')
  if not f[1] then return nil end
  return {
    u = u, key = key, max = tonumber(f[2]), ready = tonumber(f[3]) or 0, back = tonumber(f[4]) or 0,
    wanted = f[5] == '1', acked = tonumber(f[6]) or 0, spent = tonumber(f[7]) or 0,
  }
end

local function save(q)
  call('HSET', q.key, 'ready', str(q.ready), 'back', str(q.back), 'wanted', q.wanted and '1' or '0', 'acked', str(q.acked), 'spent', str(q.spent))
end

-- Tenants that have something waiting and are not in the ring enter at its tail.
local function enter(q, tenants)
  if #tenants == 0 then return end
  bulk('SADD', q.key .. ':in', tenants)
  bulk('RPUSH', q.key .. ':ring', tenants)
  if q.wanted then
    q.wanted = false
    hint('q' .. q.u)
  end
end

-- Count unsettled messages by minute, for `oldest`.
local function age(q, minute, by)
  local count = call('HINCRBY', q.key .. ':age', minute, by)
  if count == 0 then
    call('HDEL', q.key .. ':age', minute)
    call('ZREM', q.key .. ':ages', minute)
  elseif count == by then
    call('ZADD', q.key .. ':ages', minute, minute)
  end
end

local function minute(n) return floor((floor(n / 128) + 1735689600000) / 60000) end

-- Messages that are settled count in no minute any more.
local function settled(q, seqs, lanes)
  local minutes = {}
  for i = 1, #seqs do
    local at = minute(floor(tonumber(seqs[i]) / lanes))
    minutes[at] = (minutes[at] or 0) + 1
  end
  for at, count in pairs(minutes) do age(q, at, -count) end
end

-- Make an entry of the due index: L a lease group, D a delayed retry. At one
-- time they sort by kind, uid, and token or seq.
local function member(kind, u, id) return kind .. u .. '!' .. id end

local function plan(at, entry)
  call('ZADD', T .. ':due', at, entry)
  hints[entry] = true
end

local function delayed(u, seq) return member('D', u, string.format('%016d', tonumber(seq))) end

-- The uid of a due entry, and what it names.
local function parse(entry)
  local at = string.find(entry, '!', 1, true)
  return string.sub(entry, 2, at - 1), string.sub(entry, at + 1)
end

-- The time to the next due entry in ms, -1 if there is none. Entries of
-- removed queues fall out; past 1,000 of them a step goes on with it.
local function due()
  for _ = 1, 1000 do
    local first = call('ZRANGE', T .. ':due', 0, 0, 'WITHSCORES')
    if not first[1] then return -1 end
    if gone == 0 or call('HEXISTS', T .. ':q:' .. parse(first[1]), 'version') == 1 then
      local left = math.max(0, tonumber(first[2]) - now)
      if hints[first[1]] then hint('d' .. str(left)) end
      return left
    end
    call('ZREM', T .. ':due', first[1])
  end
  return 0
end

-- A sink lets go of bodies; the last holder's are freed.
local function release(seqs)
  if #seqs == 0 then return end
  if call('EXISTS', T .. ':holders') == 0 then return bulk('HDEL', T .. ':body', seqs) end
  local held, free, single = gather('HMGET', T .. ':holders', seqs), {}, {}
  for i = 1, #seqs do
    local left = (tonumber(held[i]) or 1) - 1
    if left == 0 then free[#free + 1] = seqs[i]
    elseif left == 1 then single[#single + 1] = seqs[i]
    else call('HINCRBY', T .. ':holders', seqs[i], -1) end
  end
  bulk('HDEL', T .. ':body', free)
  bulk('HDEL', T .. ':holders', single)
end

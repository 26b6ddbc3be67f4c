-- What the scripts of a lane share. Each declares two keys of its slot, one
-- that always exists and one that never does, and derives the others from the
-- first: while a slot moves, Redis then refuses the call whole (TRYAGAIN).
-- KEYS  1 the lane's own key  2 a key that never exists
-- ARGV  1 store id  2 now in ms; 0 for the server's clock; -1 if time does not matter
-- Numbers stay below 2^53, where Lua's are exact, and become text through str only:
-- it is the quickest way, and Lua's own would cut digits off.
local T = KEYS[1]
local call, floor = redis.call, math.floor
local now        -- the lane's time
local L = {}     -- the lane's numbers
local hints = {} -- due entries that this script made

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

-- The lane's numbers, in one field: its last time and clock offset; removed sinks that
-- wait for the sweep; the counter of seq; the registry's version; what was counted; when
-- the generations of ids and keys turn; ids remembered for longer.
local state = '<dddddddddddd'

-- Read the lane's record, and further fields of it from the third on, and set its time;
-- nil if it is missing.
local function lane(...)
  local m = call('HMGET', T, 'id', 'state', ...)
  if m[1] ~= ARGV[1] then return nil end
  L.t, L.off, L.gone, L.n, L.version, L.published, L.duplicates, L.unrouted, L.dropped, L.dedupe, L.keying, L.longs =
    struct.unpack(state, m[2] or string.rep('\0', 96))
  local given = tonumber(ARGV[2])
  if given ~= 0 then
    now = math.max(L.t, given)
    return m
  end
  local clock = call('TIME')
  local machine = tonumber(clock[1]) * 1000 + floor(tonumber(clock[2]) / 1000)
  if machine + L.off < L.t - 1000 then L.off = L.t - machine end
  now = math.max(L.t, machine + L.off)
  return m
end

-- Write the lane's time and numbers, and further fields.
local function keep(...)
  call('HSET', T, 'state', struct.pack(state, now, L.off, L.gone, L.n, L.version, L.published, L.duplicates, L.unrouted, L.dropped,
    L.dedupe, L.keying, L.longs), ...)
end

-- A hint may be lost, so a user without the channel's permission loses it
-- instead of failing a script that has begun to write.
local function hint(text) redis.pcall('SPUBLISH', T .. ':hint', text) end

-- What few queues have, in one field: how many tenants have settings, are parked, are
-- in the ring with nothing leasable; messages dropped; named lease groups, now and ever;
-- the turn that was cut short and what is left of it; how far parked tenants were
-- roused, and a purge got.
local few = '<dddddddI2c0I2c0I2c0'

-- What changes all the time: messages that wait, and that came back; whether someone
-- waits for more; messages acked, and spent; the newest minute, and unsettled messages
-- stamped in it.
local counts = '<ddddddd'

-- A queue has operations: how long they are kept, what is noted of messages, and what is to be written.
local function tracked(q, conf)
  local other, failed = string.match(conf, '^ (%d+) (%d+)$')
  q.tracked, q.id, q.kept = true, 'q' .. q.u, {other = tonumber(other), failed = tonumber(failed)}
  q.notes, q.dirty, q.over, q.expiring, q.closed, q.tally, q.moved, q.cancelled = {}, {}, {}, {}, {}, {}, {}, 0
end

-- A queue's record in the lane, whether the lane knows its uid or not.
local function load(u)
  local key = T .. ':q:' .. u
  local f = call('HMGET', key, 'version', 'max', 'conf', 'counts', 'few')
  local q = {
    u = u, key = key, known = f[1] ~= false, max = tonumber(f[2]) or 0,
    limit = 0, length = 0, keep = 0, special = 0, parked = 0, hollow = 0, dropped = 0, named = 0, ever = 0, credit = 0,
    turn = '', wake = '', purged = '',
  }
  q.ready, q.back, q.wanted, q.acked, q.spent, q.minute, q.young = struct.unpack(counts, f[4] or string.rep('\0', 56))
  q.wanted = q.wanted == 1
  q.listed = q.wanted -- in `wanted`
  if f[3] and f[3] ~= '' then
    local block, wait, ordered, paused, limit, length, oldest, dead, rest = string.match(f[3], '^(%d) (%d+) (%d) (%d) (%d+) (%d+) (%d) (%d+)(.*)$')
    q.block, q.wait, q.ordered, q.paused = block == '1', tonumber(wait), ordered == '1', paused == '1'
    q.limit, q.length, q.keep = tonumber(limit), tonumber(length), tonumber(dead)
    q.oldest = oldest == '1' and not q.ordered
    if rest ~= '' then tracked(q, rest) end
  end
  if f[5] then
    q.special, q.parked, q.hollow, q.dropped, q.named, q.ever, q.credit, q.turn, q.wake, q.purged = struct.unpack(few, f[5])
  end
  -- Free: whoever has something leasable may be in the ring, and a turn is one message.
  -- Plain: it is also leasable whatever waits.
  q.free = q.limit == 0 and q.special == 0
  q.plain = q.free and not q.ordered
  return q
end

-- The same, or nil if the lane does not know the uid.
local function queue(u)
  local q = load(u)
  return q.known and q or nil
end

-- Queues that are wanted are listed, so that whoever waits can see at once whether a hint was lost.
local function save(q)
  if q.wanted ~= q.listed then
    call(q.wanted and 'SADD' or 'SREM', T .. ':wanted', q.u)
    q.listed = q.wanted
  end
  local packed = struct.pack(counts, q.ready, q.back, q.wanted and 1 or 0, q.acked, q.spent, q.minute, q.young)
  if not q.changed then return call('HSET', q.key, 'counts', packed) end
  call('HSET', q.key, 'counts', packed, 'few', struct.pack(few, q.special, q.parked, q.hollow, q.dropped, q.named, q.ever, q.credit,
    #q.turn, q.turn, #q.wake, q.wake, #q.purged, q.purged))
end

-- Change one of the numbers that few queues have.
local function tally(q, what, by)
  if by ~= 0 then q[what], q.changed = q[what] + by, true end
end

-- Count unsettled messages by minute, for `oldest`: those of the newest in the queue's
-- record, the others in `age`.
local function ageOld(q, minute, by)
  local count = call('HINCRBY', q.key .. ':age', minute, by)
  if count == 0 then
    call('HDEL', q.key .. ':age', minute)
    call('ZREM', q.key .. ':ages', minute)
  elseif count == by then
    call('ZADD', q.key .. ':ages', minute, minute)
  end
end

local function age(q, minute, by)
  if minute == q.minute then
    q.young = q.young + by
  elseif minute > q.minute and by > 0 then
    if q.young > 0 then ageOld(q, q.minute, q.young) end
    q.minute, q.young = minute, by
  else
    ageOld(q, minute, by)
  end
end

local function minute(n) return floor((floor(n / 128) + 1735689600000) / 60000) end

-- Messages that are settled count in no minute any more.
local function settled(q, seqs, lanes)
  local minutes, at, from, to = {}, 0, 0, 0 -- a minute, and the seqs of it
  for i = 1, #seqs do
    local seq = tonumber(seqs[i])
    if seq < from or seq >= to then
      at = minute(floor(seq / lanes))
      from = (at * 60000 - 1735689600000) * 128 * lanes
      to = from + 60000 * 128 * lanes
    end
    minutes[at] = (minutes[at] or 0) + 1
  end
  for at, count in pairs(minutes) do age(q, at, -count) end
end

-- Make an entry of the due index: D a delayed retry, E a held event (of no queue), L a
-- lease group, O operations that expire in one minute, X the end of a dead letter; of subscriptions B a batch that is ready then,
-- K the end of a park, T a pending batch, Y the end of a dead one. At one time they sort by
-- kind, uid, and token or name.
local function member(kind, u, id) return kind .. u .. '!' .. id end

local function plan(at, entry)
  call('ZADD', T .. ':due', at, entry)
  hints[entry] = true
end

local function digits(name) return string.format('%016d', tonumber(name)) end
local function delayed(u, name) return member('D', u, digits(name)) end
local function held(name) return member('E', '', digits(name)) end
local function ending(u, name) return member('X', u, digits(name)) end

-- The uid of a due entry, and what it names.
local function parse(entry)
  local at = string.find(entry, '!', 1, true)
  return string.sub(entry, 2, at - 1), string.sub(entry, at + 1)
end

-- Is a due entry of something that the lane still knows?
local function current(entry)
  local kind = string.sub(entry, 1, 1)
  if L.gone == 0 or kind == 'E' or kind == 'O' then return true end
  return call('HEXISTS', T .. (string.find('BKTY', kind, 1, true) and ':b:' or ':q:') .. parse(entry), 'version') == 1
end

-- The time to the next due entry in ms, -1 if there is none. Entries of
-- removed sinks fall out; past 1,000 of them a step goes on with it.
local function due()
  for _ = 1, 1000 do
    local first = call('ZRANGE', T .. ':due', 0, 0, 'WITHSCORES')
    if not first[1] then return -1 end
    if current(first[1]) then
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

-- A held event is held no more.
local function unheld(name, alias)
  call('HDEL', T .. ':held', name)
  call('ZREM', T .. ':due', held(name))
  call('ZREM', T .. ':alias:' .. alias, name)
end

-- Messages left a queue otherwise than by a settlement.
local function drop(q, names, lanes, alive)
  release(names)
  if alive then settled(q, names, lanes) end
  tally(q, 'dropped', #names)
  L.dropped = L.dropped + #names
end

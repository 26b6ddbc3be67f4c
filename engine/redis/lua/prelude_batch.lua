-- What the scripts share that move batches of subscriptions. A batch is in one state: E
-- early, R ready, P pending, D dead. Its record says so, and the sorted set of the state
-- names it. All but pending ones are also in `batches`, oldest first, of every subscription.
local batch = {} -- a table, so that its words do not hide those of queues

local states = {E = ':early', R = ':ready', P = ':pending', D = ':dead'}
local kinds = {E = 'B', P = 'T', D = 'Y'} -- of the due entries

-- A subscription's numbers, in one field: the batch that collects, with its events and
-- bytes; the batch that an ordered one waits for; batches ready and pending; whether it
-- is in the ring; failures in a row, parks, until when it is parked, whether it is
-- probing, since when it fails; events sent; attempts failed; events dropped, skipped,
-- in batches that are not dead, and in dead ones.
local numbers = '<dddddddddddddddddd'
local form = '<c1dddddc16I2c0I2c0I2c0' -- of a batch's record

-- A subscription of the lane, or nil if the lane does not know the uid.
function batch.sub(u)
  local s = {u = u, key = T .. ':b:' .. u, length = 0, waits = {}}
  local f = call('HMGET', s.key, 'version', 'conf', 'numbers')
  if not f[1] then return nil end
  s.version = f[1]
  local flags, timeout, events, most, concurrency, keeps, waits
  flags, timeout, events, most, concurrency, keeps, waits, s.format = string.match(f[2], '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) ([%d,]*) (.*)$')
  s.ordered, s.paused, s.disabled = string.byte(flags) == 49, string.byte(flags, 2) == 49, string.byte(flags, 3) == 49
  s.timeout, s.events, s.most, s.concurrency, s.keep = tonumber(timeout), tonumber(events), tonumber(most), tonumber(concurrency), tonumber(keeps)
  for ms in string.gmatch(waits, '%d+') do s.waits[#s.waits + 1] = tonumber(ms) end
  s.current, s.count, s.bytes, s.blocking, s.ready, s.pending, s.inside, s.fails, s.round, s.parked, s.probing, s.since,
    s.sent, s.failed, s.dropped, s.skipped, s.queued, s.lost = struct.unpack(numbers, f[3] or string.rep('\0', 144))
  return s
end

function batch.save(s)
  call('HSET', s.key, 'numbers', struct.pack(numbers, s.current, s.count, s.bytes, s.blocking, s.ready, s.pending, s.inside, s.fails,
    s.round, s.parked, s.probing, s.since, s.sent, s.failed, s.dropped, s.skipped, s.queued, s.lost))
end

-- The subscriptions that a script has at hand, each read once, and saved at its end.
local atHandOf = {}
function batch.of(u)
  if atHandOf[u] == nil then atHandOf[u] = batch.sub(u) or false end
  return atHandOf[u]
end

function batch.saveAll()
  for _, s in pairs(atHandOf) do
    if s then batch.save(s) end
  end
end

-- A batch, or nil. What collects is counted in the subscription's numbers.
function batch.get(s, name)
  local record = call('HGET', s.key .. ':batch', name)
  if not record then return nil end
  local b = {name = name}
  b.state, b.attempts, b.created, b.due, b.count, b.bytes, b.token, b.node, b.format, b.error = struct.unpack(form, record)
  b.current = s.current == tonumber(name)
  if b.current then b.count, b.bytes = s.count, s.bytes end
  return b
end

function batch.put(s, b)
  call('HSET', s.key .. ':batch', b.name, struct.pack(form, b.state, b.attempts, b.created, b.due, b.count, b.bytes, b.token,
    #b.node, b.node, #b.format, b.format, #b.error, b.error))
end

function batch.due(s, b) return member(kinds[b.state], s.u, digits(b.name)) end
function batch.parking(s) return member('K', s.u, '') end
function batch.listed(s, name) return s.u .. '!' .. name end

-- So many batches more are in a state, with so many events each.
function batch.tally(s, state, by, events)
  if state == 'R' then s.ready = s.ready + by elseif state == 'P' then s.pending = s.pending + by end
  if state == 'D' then s.lost = s.lost + by * events else s.queued = s.queued + by * events end
end

-- A batch leaves its state, for another or for good.
function batch.leave(s, b)
  call('ZREM', s.key .. states[b.state], b.name)
  if b.due > 0 then call('ZREM', T .. ':due', batch.due(s, b)) end
  if b.state ~= 'P' then call('ZREM', T .. ':batches', batch.listed(s, b.name)) end
  batch.tally(s, b.state, -1, b.count)
  local name = tonumber(b.name)
  if s.current == name then s.current, s.count, s.bytes = 0, 0, 0 end
  if s.blocking == name then s.blocking = 0 end
end

-- It comes into a state, to leave it at a time unless that is 0.
function batch.come(s, b, state, at)
  b.state, b.due = state, at
  call('ZADD', s.key .. states[state], b.name, b.name)
  if at > 0 then plan(at, batch.due(s, b)) end
  if state ~= 'P' then call('ZADD', T .. ':batches', b.name, batch.listed(s, b.name)) end
  batch.tally(s, state, 1, b.count)
  batch.put(s, b)
end

function batch.servable(s)
  local most = (s.probing == 1 or s.ordered) and 1 or s.concurrency
  return s.ready > 0 and s.pending < most and s.parked == 0 and s.blocking == 0 and not s.paused and not s.disabled
end

-- Subscriptions enter the ring at its tail; whoever waits for that is told.
function batch.ring(uids)
  if #uids == 0 then return end
  bulk('RPUSH', T .. ':turns', uids)
  if call('HDEL', T, 'wanted') == 1 then hint('b') end
end

-- A subscription enters if it can be served and is not there.
function batch.admit(s)
  if s.inside == 1 or not batch.servable(s) then return end
  s.inside = 1
  batch.ring({s.u})
end

-- A batch is ready, whatever it waited for.
function batch.promote(s, b)
  batch.leave(s, b)
  batch.come(s, b, 'R', 0)
  batch.admit(s)
end

-- A batch is gone, and its events let go.
function batch.remove(s, b)
  local key = s.key .. ':events:' .. b.name
  batch.leave(s, b)
  release(call('LRANGE', key, 0, -1))
  call('UNLINK', key)
  call('HDEL', s.key .. ':batch', b.name)
end

-- A batch is gone without having been sent.
function batch.drop(s, b)
  batch.remove(s, b)
  s.dropped, L.dropped = s.dropped + b.count, L.dropped + b.count
  batch.admit(s)
end

-- The sending of a batch failed. after is what its receiver asked for, or 0. Returns
-- whether its attempts are spent.
function batch.fail(s, b, text, after, jitter)
  local function wait(n)
    if after > 0 then return now + after end
    return now + math.max(1, floor(s.waits[math.min(n, #s.waits)] * (8000 + 4 * jitter) / 10000))
  end
  call('HSET', s.key, 'reason', text)
  s.failed = s.failed + 1
  if s.since == 0 then s.since = now end
  batch.leave(s, b)
  b.error, b.node, b.token = text, '', string.rep('\0', 16)
  local spent = b.attempts > #s.waits
  if spent then
    batch.come(s, b, 'D', s.keep > 0 and now + s.keep or 0)
  else
    batch.come(s, b, 'E', wait(b.attempts))
    if s.ordered then s.blocking = tonumber(b.name) end
  end
  if s.parked == 0 and #s.waits > 0 then
    s.fails = s.fails + 1
    if s.fails >= 3 or s.probing == 1 then
      s.round = s.round + 1
      s.parked, s.probing = wait(s.round), 1
      plan(s.parked, batch.parking(s))
    end
  end
  batch.admit(s)
  return spent
end

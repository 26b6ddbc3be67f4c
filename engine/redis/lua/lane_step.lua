-- Do up to max of what is due in the lane: ended leases and delayed retries go back to
-- their facets, or to the dead letters; held events are handed out, and again after 10 s;
-- batches are ready, or have been pending too long; dead letters, dead batches and operations whose
-- time is over go. After 10,000 events of dead batches it stops.
-- ARGV  3 max  4 lanes  5 bytes of events
-- Returns expired, returned, dead, 1 if something is still due, ms to the next due entry,
-- how many dead letters and batches went, name, due time, body of each event, uid, name, reason
-- (l: its lease ended, a: and it is dead, c: and its operation was cancelled, r: it was dead and
-- went) of what left, how many batches are ready, how many were pending too long, and how many
-- operations went.
if not lane() then return 'lane_missing' end
local max, lanes, bytes = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local expired, returned, dead, forgotten, looked, size = 0, 0, 0, 0, 0, 0
local promoted, scrubbed, roused, dropped, passed = 0, 0, 0, 0, 0
local queues, events, exits = {}, {}, {}

local function known(u)
  if queues[u] == nil then queues[u] = queue(u) or false end
  return queues[u]
end

local function done() return expired + returned + forgotten + #events / 3 + promoted + scrubbed + roused + passed end

local function left(q, name, reason)
  exits[#exits + 1], exits[#exits + 2], exits[#exits + 3] = q.u, name, reason
end

local function expire(q, id)
  local found, seen = members(q, id, max - done())
  looked = looked + seen
  for _, f in ipairs(found) do
    local reason = lapse(q, f, lanes)
    if reason == 'a' then dead = dead + 1 end
    left(q, f[1], reason)
  end
  part(q, {[id] = #found})
  expired = expired + #found
end

local function resume(q, entry, id)
  local name = str(tonumber(id))
  local who = call('HGET', q.key .. ':delayed', name)
  call('ZREM', T .. ':due', entry)
  if not who then return end
  undelay(q, name, who)
  back(q, name, who)
  returned = returned + 1
end

local function forget(q, entry, id)
  local name = str(tonumber(id))
  local record = call('HGET', q.key .. ':why', name)
  call('ZREM', T .. ':due', entry)
  if not record then return end
  undead(q, name, deadOf(record))
  drop(q, {name}, lanes)
  vacate(q, {tenantOf(deadOf(record))})
  forgotten = forgotten + 1
  left(q, name, 'r')
end

-- Operations of a queue, which may be gone, that expired in one minute.
local function retire(entry, u, minute)
  local gone, more = tracking().expire(u, minute, max - done())
  if not more then call('ZREM', T .. ':due', entry) end
  passed = passed + gone
end

-- Events of more than so many bytes wait for the next step; the first goes whatever its size.
local function hand(entry, id)
  local name = str(tonumber(id))
  local record = call('HGET', T .. ':held', name)
  if not record then return call('ZREM', T .. ':due', entry) end
  local due, _, _, at = struct.unpack('<dI2c0I2c0', record)
  size = size + #record - at
  if size > bytes and #events > 0 then return end
  call('ZADD', T .. ':due', now + 10000, entry)
  events[#events + 1], events[#events + 2], events[#events + 3] = name, str(due), string.sub(record, at + 1)
end

-- What is due of a subscription.
local function takeBatch(kind, s, entry, id)
  if s and kind == 'K' then
    s.parked, roused = 0, roused + 1
    batch.admit(s)
    return call('ZREM', T .. ':due', entry)
  end
  local b = s and batch.get(s, str(tonumber(id)))
  if not b then
    call('ZREM', T .. ':due', entry)
  elseif kind == 'B' then
    batch.promote(s, b)
    promoted = promoted + 1
  elseif kind == 'T' then
    batch.fail(s, b, 'lost', 0, 500)
    scrubbed = scrubbed + 1
  else
    batch.drop(s, b)
    forgotten, dropped = forgotten + 1, dropped + b.count
  end
end

local function take(entry)
  local kind, u, id = string.sub(entry, 1, 1), parse(entry)
  if kind == 'E' then return hand(entry, id) end
  if kind == 'O' then return retire(entry, u, id) end
  if string.find('BKTY', kind, 1, true) then return takeBatch(kind, batch.of(u), entry, id) end
  local q = known(u)
  if not q then call('ZREM', T .. ':due', entry)
  elseif kind == 'L' then expire(q, id)
  elseif kind == 'X' then forget(q, entry, id)
  else resume(q, entry, id) end
end

-- A group that is mostly settled still names its messages, and entries of
-- removed queues fall out: looking at them is bounded too.
local function over() return done() >= max or looked >= 2 * max + 2000 or size > bytes or dropped >= 10000 end
repeat
  local entries = call('ZRANGEBYSCORE', T .. ':due', '-inf', now, 'LIMIT', 0, max)
  for _, entry in ipairs(entries) do
    looked = looked + 1
    if over() then break end
    take(entry)
  end
until #entries < max or over()
for _, q in pairs(queues) do
  if q and q.tracked then tracking().flush(q) end
  if q then save(q) end
end
batch.saveAll()
keep()
local wait = due()
return {expired, returned, dead, wait == 0 and 1 or 0, wait, forgotten, events, exits, promoted, scrubbed, passed}

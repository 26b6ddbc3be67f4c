-- Lease up to max messages of a queue, in turns.
-- What is leased is planned already.
-- ARGV  6 ms  8 consumer  9 lanes
-- Returns now, tenants left in the ring, ms to the next due entry, the attempts
-- that are not the first (index, attempt), and name, tenant, body of each message.
-- Write: the facets.
local served, returned, where = {}, {}, {}
for i = 1, count do
  local f = turns[i]
  if not f.gave then served[#served + 1], f.gave = f, 0 end
  f.gave = f.gave + 1
  if f.gave <= f.back then returned[#returned + 1], where[#where + 1] = names[i], i end
end
for i = 1, #served do
  local f = served[i]
  local old = q.ordered and f.gave or math.min(f.gave, f.back)
  if old > 0 then call('ZREMRANGEBYRANK', q.key .. (q.ordered and ':heads:' or ':back:') .. f.tenant, 0, old - 1) end
  if f.gave > old then call('LPOP', q.key .. ':facet:' .. f.tenant, f.gave - old) end
  wait(q, f.tenant, -f.gave)
end

-- Write: the ring. Who was served goes to the tail, in the order of their last turns,
-- or leaves.
local stay, leave, last = {}, {}, {}
for i = 1, played and 0 or count do last[turns[i]] = i end
for i = 1, played and 0 or count do
  local f = turns[i]
  if last[f] == i then
    local into = f.list[f.gave + 1] and stay or leave
    into[#into + 1] = f.tenant
  end
end
local turned = #stay < #ring or #ring == max
for i = 1, #stay do turned = turned or stay[i] ~= ring[i] end
if not played and q.turn ~= '' and count > 0 then q.turn, q.credit, q.changed = '', 0, true end
if played then turnRing(q, played, see)
elseif turned and #served > 0 then
  call('LPOP', q.key .. ':ring', #served)
  bulk('RPUSH', q.key .. ':ring', stay)
  bulk('SREM', q.key .. ':in', leave)
end

-- Write: the leases, one record each, one group for all; or nothing but that they are gone.
local ms, tries, attempts, reply = tonumber(ARGV[6]), {}, {}, {}
local before = gather('HMGET', q.key .. ':tries', returned)
for i = 1, #where do
  attempts[where[i]] = (tonumber(before[i]) or 0) + 1
  if attempts[where[i]] > 1 then tries[#tries + 1], tries[#tries + 2] = where[i], attempts[where[i]] end
end
for i = 1, count do
  reply[3 * i - 2], reply[3 * i - 1], reply[3 * i] = names[i], turns[i].tenant, bodies[i]
end

-- Whose the i-th message is; in an ordered queue its key tells, in the order of its tenant's.
local function owner(i)
  local f = turns[i]
  if not q.ordered then return f.tenant end
  f.told = (f.told or 0) + 1
  local at = f.at[f.told]
  return string.sub(at, 1, 1) == '=' and f.tenant .. '\0' .. string.sub(at, 2) or f.tenant
end

local function record()
  local deadline, records, tenants = now + ms, {}, {}
  local first = lease(deadline, token, 1)
  for i = 1, count do
    records[2 * i - 1] = names[i]
    records[2 * i] = (attempts[i] and lease(deadline, token, attempts[i]) or first) .. owner(i)
  end
  bulk('HSET', q.key .. ':leased', records)
  join(q, deadline, token, table.concat(names, ' ', 1, count), count, ARGV[8])
  for i = 1, #served do tenants[i] = served[i].tenant end
  local flight, fresh = gather('HMGET', q.key .. ':flight', tenants), {}
  for i = 1, #served do fresh[2 * i - 1], fresh[2 * i] = tenants[i], (tonumber(flight[i]) or 0) + served[i].gave end
  bulk('HSET', q.key .. ':flight', fresh)
end

local function spend()
  local given, tenants = {}, {}
  for i = 1, count do
    given[i] = names[i]
    pass(q, owner(i))
  end
  release(given)
  bulk('HDEL', q.key .. ':tries', returned)
  settled(q, given, tonumber(ARGV[9]))
  q.acked = q.acked + count
  for i = 1, #served do tenants[i] = served[i].tenant end
  vacate(q, tenants)
end

if not q.ordered then q.back = q.back - #returned end
if count > 0 and ms > 0 then record() elseif count > 0 then spend() end
local left = call('LLEN', q.key .. ':ring')
q.wanted = left == 0 and q.wake == ''
save(q)
keep()
return {now, left, due(), tries, reply}

-- Lease up to max messages of a queue, in turns.
-- What is leased is planned already.
-- ARGV  6 ms  8 consumer  9 lanes
-- Returns now, tenants left in the ring, ms to the next due entry, the attempts
-- that are not the first (index, attempt), and name, tenant, body of each message.
-- Write: the facets.
local served, returned, where = {}, {}, {}
for i = 1, single and 0 or count do
  local f = turns[i]
  local gave = f.gave + 1
  if gave == 1 then served[#served + 1] = f end
  f.gave = gave
  if gave <= f.back then returned[#returned + 1], where[#where + 1] = names[i], i end
end
for i = 1, #served do
  local f = served[i]
  local old = q.ordered and f.gave or math.min(f.gave, f.back)
  if old > 0 then call('ZREMRANGEBYRANK', q.key .. (q.ordered and ':heads:' or ':back:') .. f.tenant, 0, old - 1) end
  wait(q, f.tenant, -f.gave)
end

-- Write: the ring. Who was served goes to the tail, in the order of their last turns,
-- or leaves.
local function turnRound()
  local stay, left = {}, {}
  for i = 1, #served do left[served[i]] = served[i].gave end
  for i = 1, count do
    local f = turns[i]
    left[f] = left[f] - 1
    if left[f] == 0 then
      f.inside = f.list[f.gave + 1] ~= nil
      if f.inside then stay[#stay + 1] = f.tenant end
    end
  end
  local turned = #stay < #round or #round == max
  for i = 1, #stay do turned = turned or stay[i] ~= round[i] end
  if not turned then return end
  call('LPOP', q.key .. ':ring', #served)
  bulk('RPUSH', q.key .. ':ring', stay)
end

if not played and q.turn ~= '' and count > 0 then q.turn, q.credit, q.changed = '', 0, true end
if single then writeSingle(q, single, round, count)
elseif played then turnRing(q, played, see)
elseif #served > 0 then turnRound() end

-- Write: the hands of who was served or left. What was at hand of a parked tenant returns
-- to its facet.
local hands, bare = {}, {}

local function backwards(list)
  local turned, size = {}, #list
  for i = 1, size do turned[i] = list[size + 1 - i] end
  return turned
end

local function remains(f)
  local own, gave = f.back + f.own, f.gave
  if gave <= f.back and f.back > 0 or q.ordered then return f.names, f.more, 0 end
  local to = f.inside and #f.list > own and math.max(own, math.min(#f.list, gave + atHand)) or own
  local popped = math.max(gave, to) - own
  return listed(f.list, gave + 1, to), f.more and (#f.list == own or own + popped < #f.list), popped
end

local function write(f)
  local rest, more, popped = remains(f)
  if popped > 0 then call('LPOP', q.key .. ':facet:' .. f.tenant, popped) end
  local leased = f.leased + (ms > 0 and f.gave or 0)
  if not f.inside then
    local near = words(rest)
    if #near > 0 then call('LPUSH', q.key .. ':facet:' .. f.tenant, unpack(backwards(near))) end
    rest, more = '', false
  end
  if f.inside or leased > 0 then hands[#hands + 1], hands[#hands + 2] = f.tenant, hand(leased, f.inside, rest, more)
  else bare[#bare + 1] = f.tenant end
end

for i = 1, #served do write(served[i]) end
for i = 1, played and #played.leave or 0 do
  if played.leave[i].gave == 0 then write(played.leave[i]) end
end
bulk('HSET', q.key .. ':hand', hands)
bulk('HDEL', q.key .. ':hand', bare)

-- Write: the leases, one record each, one group for all; or nothing but that they are gone.
local tries, attempts, reply = {}, {}, {}
local before = gather('HMGET', q.key .. ':tries', returned)
for i = 1, #where do attempts[where[i]] = (tonumber(before[i]) or 0) + 1 end

-- Whose the i-th message is; in an ordered queue its key tells, in the order of its tenant's.
local function owner(i)
  local f = turns[i]
  if not q.ordered then return f.tenant end
  f.told = (f.told or 0) + 1
  return f.whose[f.told]
end

local function record()
  local deadline, records = now + ms, {}
  local first = lease(deadline, token, 1)
  for i = 1, count do
    records[2 * i - 1] = names[i]
    records[2 * i] = (attempts[i] and lease(deadline, token, attempts[i]) or first) .. (single and round[i] or owner(i))
  end
  bulk('HSET', q.key .. ':leased', records)
  join(q, deadline, token, table.concat(names, ' ', 1, count), count, ARGV[8])
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

-- A body that is missing was removed by hand. Its message goes, lest it stops the others.
local function discard(name)
  local deadline, _, _, who = leased(call('HGET', q.key .. ':leased', name))
  local tenant = tenantOf(who)
  call('HDEL', q.key .. ':leased', name)
  call('HDEL', q.key .. ':tries', name)
  part(q, {[group(deadline, token)] = 1})
  land(q, tenant)
  drop(q, {name}, tonumber(ARGV[9]), true)
  pass(q, who)
  readmit(q, tenant)
  vacate(q, {tenant})
end

if not q.ordered then q.back = q.back - #returned end
if count > 0 and ms > 0 then record() elseif count > 0 then spend() end
local at = 0
for i = 1, count do
  if bodies[i] then
    reply[at + 1], reply[at + 2], reply[at + 3] = names[i], single and round[i] or turns[i].tenant, bodies[i]
    at = at + 3
    if attempts[i] and attempts[i] > 1 then tries[#tries + 1], tries[#tries + 2] = at / 3, attempts[i] end
  elseif ms > 0 then
    discard(names[i])
  end
end
local left = call('LLEN', q.key .. ':ring')
q.wanted = left == 0 and q.wake == ''
if count == 0 then q.listed = nil end -- who found nothing sees to it that the list tells
save(q)
keep()
return {now, left, due(), tries, reply}

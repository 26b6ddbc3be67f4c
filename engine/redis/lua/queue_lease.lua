-- Lease up to max messages of a queue, in turns.
-- What is leased is planned already.
-- ARGV  6 ms  8 consumer  9 lanes
-- Returns now, tenants left in the ring, ms to the next due entry, the attempts
-- that are not the first (index, attempt), name, tenant, body of each message, and of a tracked
-- queue index, number and secret of the operations that name and body do not tell.
-- Write: the facets.
local served, returned, where = {}, {}, {}
for i = 1, single and 0 or count do
  local f = turns[i]
  local gave = f.gave + 1
  if gave == 1 then served[#served + 1] = f end
  f.gave = gave
  if ops and ops.gone[i] then f.dropped = (f.dropped or 0) + 1 end
  if f.mix and not q.ordered and f.mix[gave] > f.mix[gave - 1] or gave <= f.back then returned[#returned + 1], where[#where + 1] = names[i], i end
end
for i = 1, #served do
  local f = served[i]
  local old = f.mix and f.mix[f.gave] or q.ordered and f.gave or math.min(f.gave, f.back)
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

local function remains(f)
  local list, own, gave = f.list, f.back + f.own, f.gave
  if gave <= f.back and f.back > 0 or q.ordered then return f.names, f.more, 0 end
  if f.mix then list, gave = f.fresh, gave - f.mix[gave] end
  local to = #list > own and math.max(own, math.min(#list, gave + atHand)) or own
  local popped = math.max(gave, to) - own
  return listed(list, gave + 1, to), f.more and (#list == own or own + popped < #list), popped
end

local function write(f)
  local rest, more, popped = remains(f)
  if popped > 0 then call('LPOP', q.key .. ':facet:' .. f.tenant, popped) end
  local leased = f.leased + (ms > 0 and f.gave - (f.dropped or 0) or 0)
  if not f.inside then
    local near = words(rest)
    for i = #near, 1, -1 do call('LPUSH', q.key .. ':facet:' .. f.tenant, near[i]) end
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

-- Of a tracked queue: those that are given and not dropped.
local function pick(records)
  local some, given = {}, {}
  for i = 1, count do
    if not ops.gone[i] then
      given[#given + 1] = names[i]
      some[#some + 1], some[#some + 2] = names[i], records[2 * i]
    end
  end
  return some, given
end

local function record()
  local deadline, records = now + ms, {}
  local started = ops and now or nil
  local first = lease(deadline, token, 1, started)
  for i = 1, count do
    records[2 * i - 1] = names[i]
    records[2 * i] = (attempts[i] and lease(deadline, token, attempts[i], started) or first) .. (single and round[i] or owner(i))
  end
  local given, size = names, count
  if ops and ops.any then records, given = pick(records) size = #given end
  bulk('HSET', q.key .. ':leased', records)
  if size > 0 then join(q, deadline, token, table.concat(given, ' ', 1, size), size, ARGV[8]) end
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

-- A key goes on from a message that was cancelled to its next, unless that is given already.
local function passOn(who, given)
  local line, name = shorten(q, who, call('HGET', q.key .. ':head', who))
  if name then
    call('HSET', q.key .. ':head', who, line)
    if not given[name] then ready(q, name, who) end
  else
    call('HDEL', q.key .. ':head', who)
    call('SREM', q.key .. ':lines:' .. tenantOf(who), who)
  end
end

-- Messages that were cancelled are gone, and their keys go on; the next of a key may be given already.
local function forsake()
  local gone, tenants, given = {}, {}, {}
  for i = 1, count do given[names[i]] = true end
  for i = 1, count do
    if ops.gone[i] then
      local f = turns[i]
      gone[#gone + 1], tenants[#tenants + 1] = names[i], f.tenant
      tracking().finish(q, names[i])
    end
  end
  if q.ordered then
    local told = {}
    for i = 1, count do
      local f = turns[i]
      told[f] = (told[f] or 0) + 1
      local who = f.whose[told[f]]
      if ops.gone[i] and #who > #f.tenant then passOn(who, given) end
    end
  end
  bulk('HDEL', q.key .. ':tries', gone)
  release(gone)
  settled(q, gone, tonumber(ARGV[9]))
  vacate(q, tenants)
end

-- A body that is missing was removed by hand. Its message goes, lest it stops the others.
local function discard(name)
  local deadline, _, attempt, who, started = leased(q, call('HGET', q.key .. ':leased', name))
  local tenant = tenantOf(who)
  call('HDEL', q.key .. ':leased', name)
  call('HDEL', q.key .. ':tries', name)
  part(q, {[group(deadline, token)] = 1})
  if q.tracked then tracking().finish(q, name, 'C', attempt, started) end
  land(q, tenant)
  drop(q, {name}, tonumber(ARGV[9]), true)
  pass(q, who)
  readmit(q, tenant)
  vacate(q, {tenant})
end

if not q.ordered then q.back = q.back - #returned end
if count > 0 and ms > 0 then record() elseif count > 0 then spend() end
if ops and ops.any then forsake() end
local at, ids = 0, {}
for i = 1, count do
  if ops and not ops.gone[i] then
    tracking().run(q, ops, i, attempts[i] or 1, bodies[i], tonumber(ARGV[9]))
    if bodies[i] and ops.secrets[i] then ids[#ids + 1], ids[#ids + 2], ids[#ids + 3] = at / 3 + 1, tonumber(ops.numbers[i]), ops.secrets[i] end
  end
  if ops and ops.gone[i] then -- it was dropped
  elseif bodies[i] then
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
if ops then tracking().flush(q) end
save(q)
keep()
return {now, left, due(), tries, reply, ops and ids or nil}

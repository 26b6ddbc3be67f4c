-- Free up to max messages of what removed queues and subscriptions left in the lane. After 1,000 tenants
-- of whom there was no message it stops too, and answers max, for there is more.
-- ARGV  3 max
-- Returns how many were freed.
if not lane() then return 'lane_missing' end
local max, freed, bare = tonumber(ARGV[3]), 0, 0

local function room() return bare < 1000 and math.min(max - freed, 500) or 0 end

-- The operations of what waited or was delayed are cancelled, if the queue is tracked.
local function freeAll(names, q)
  if q and q.tracked and #names > 0 then tracking().cancel(q, names) end
  release(names)
  freed = freed + #names
  return #names
end

local function dropLeased(q)
  call('HDEL', q.key .. ':leased', '')
  while room() > 0 do
    local names, groups = call('HRANDFIELD', q.key .. ':leased', room()), {}
    if #names == 0 then return end
    local records = call('HMGET', q.key .. ':leased', unpack(names))
    if q.tracked then tracking().look(q, names) end
    for i = 1, #records do
      local deadline, token, attempt, _, started = leased(q, records[i])
      if q.tracked then tracking().finish(q, names[i], 'C', attempt, started) end
      groups[group(deadline, token)] = (groups[group(deadline, token)] or 0) + 1
    end
    call('HDEL', q.key .. ':leased', unpack(names))
    part(q, groups)
    freeAll(names)
  end
end

local function popped(key)
  local list, names = call('ZPOPMIN', key, room()), {}
  for i = 1, #list, 2 do names[#names + 1] = list[i] end
  return names
end

-- What a tenant has delayed or dead, and is due for it.
local function dropDue(q, key, hash, entry, of)
  while room() > 0 do
    local names = popped(key)
    if #names == 0 then return end
    for i = 1, #names do call('ZREM', T .. ':due', entry(q.u, names[i])) end
    bulk('HDEL', q.key .. hash, names)
    freeAll(names, of)
  end
end

local function dropHeads(q, t)
  while room() > 0 do
    local list, names = call('ZPOPMIN', q.key .. ':heads:' .. t, room()), {}
    for i = 2, #list, 2 do names[#names + 1] = list[i] end
    if freeAll(names, q) == 0 then return end
  end
end

local function dropLines(q, t)
  while room() > 0 do
    local who = call('SRANDMEMBER', q.key .. ':lines:' .. t)
    if not who then return end
    freeAll(cutLine(q, who, room()), q)
  end
end

local function dropFacet(q, t)
  while room() > 0 do
    if freeAll(popped(q.key .. ':back:' .. t), q) == 0 then break end
  end
  while room() > 0 do
    if freeAll(pop(q, t, room()), q) == 0 then break end
  end
end

local function dropTenants(q)
  while room() > 0 do
    local t = call('ZRANGE', q.key .. ':tenants', 0, 0)[1]
    if not t then return end
    local before = freed
    dropFacet(q, t)
    dropHeads(q, t)
    dropLines(q, t)
    dropDue(q, q.key .. ':late:' .. t, ':delayed', delayed, q)
    dropDue(q, q.key .. ':lost:' .. t, ':why', ending)
    if room() > 0 then
      call('ZREM', q.key .. ':tenants', t)
      if freed == before then bare = bare + 1 end
    end
  end
end

-- The events of one batch after the other, and what tells of it.
local function dropBatches(u)
  local key = T .. ':b:' .. u
  for state, set in pairs(states) do
    while room() > 0 do
      local name = call('ZRANGE', key .. set, 0, 0)[1]
      if not name then break end
      local events = key .. ':events:' .. name
      freeAll(call('LPOP', events, room()) or {})
      if call('EXISTS', events) == 0 then
        call('ZREM', key .. set, name)
        call('ZREM', T .. ':batches', batch.listed({u = u}, name))
        if kinds[state] then call('ZREM', T .. ':due', member(kinds[state], u, digits(name))) end
      end
    end
  end
  if room() == 0 then return end
  call('ZREM', T .. ':due', batch.parking({u = u}))
  call('UNLINK', key, key .. ':batch', key .. ':log')
  call('LPOP', T .. ':trash')
  L.gone = L.gone - 1
end

local function dropQueue(u)
  local q = load(u)
  dropLeased(q)
  dropTenants(q)
  if q.tracked then tracking().flush(q) end
  if room() > 0 then
    local key = q.key
    if q.tracked then call('UNLINK', key .. ':note', key .. ':now', key .. ':minutes', key .. ':hours', key .. ':days', T .. ':oi:q' .. u) end
    if q.tracked then call('HDEL', T .. ':oi', 'q' .. u) end
    call('UNLINK', key, key .. ':tries', key .. ':age', key .. ':ages', key .. ':ring', key .. ':hollow', key .. ':parked',
      key .. ':hand', key .. ':waiting', key .. ':tenant', key .. ':head', key .. ':dead')
    call('LPOP', T .. ':trash')
    L.gone = L.gone - 1
  elseif q.changed then
    save(q)
  end
end

while room() > 0 do
  local u = call('LINDEX', T .. ':trash', 0)
  if not u then break end
  if call('EXISTS', T .. ':b:' .. u) == 1 then dropBatches(u) else dropQueue(u) end
end
L.dropped = L.dropped + freed
keep()
if next(hints) then due() end
return bare < 1000 and freed or max

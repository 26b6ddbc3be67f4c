-- Remove what waits or is delayed, of one tenant or of all.
-- ARGV  3 uid  4 tenant, empty for all  5 max  6 lanes
-- Returns how many, and how many are left.
if not lane() then return 'lane_missing' end
local q = queue(ARGV[3])
if not q then return 'not_found' end
local tenant, max, lanes = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local gone, touched = {}, {}

local function take(names)
  for i = 1, #names do gone[#gone + 1] = names[i] end
  return #names
end

local function purgeDelayed(t)
  local names = call('ZRANGE', q.key .. ':late:' .. t, 0, max - #gone - 1)
  for i = 1, #names do
    local who = call('HGET', q.key .. ':delayed', names[i])
    undelay(q, names[i], who)
    call('ZREM', T .. ':due', delayed(q.u, names[i]))
    if q.ordered then advance(q, who) end
  end
  take(names)
end

local function purgeFacet(t)
  if #gone < max then wait(q, t, -take((popOldest(q, t, max - #gone)))) end
end

-- Heads that may be leased, each followed by its next; then who is behind a blocked one.
local function purgeKeys(t)
  while #gone < max do
    local head = call('ZPOPMIN', q.key .. ':heads:' .. t)
    if #head == 0 then break end
    wait(q, t, -take({head[2]}))
    if string.sub(head[1], 1, 1) == '=' then advance(q, t .. '\0' .. string.sub(head[1], 2)) end
  end
  while #gone < max do
    local who = call('SRANDMEMBER', q.key .. ':lines:' .. t)
    if not who then break end
    wait(q, t, -take(cutLine(q, who, max - #gone)))
  end
end

-- A tenant stays in the ring until its turn finds it empty; one whose key goes on enters.
local function purgeTenant(t)
  local before = #gone
  purgeDelayed(t)
  if q.ordered then purgeKeys(t) else purgeFacet(t) end
  if #gone == before then return end
  touched[#touched + 1] = t
  local _, inside, names = handOf(q, t)
  if names ~= '' or call('EXISTS', q.key .. ':heads:' .. t, q.key .. ':back:' .. t, q.key .. ':facet:' .. t) > 0 then return admit(q, t) end
  unpark(q, t)
  if inside then tally(q, 'hollow', call('SADD', q.key .. ':hollow', t)) end
end

-- All tenants in turn, at most 1,000 that have nothing to remove; the next call goes on
-- behind the last one.
local function purgeAll()
  local looked, ends = 0, 0
  while #gone < max and looked < max + 1000 and ends < 2 do
    local from = q.purged == '' and '-' or '(' .. q.purged
    local some = call('ZRANGEBYLEX', q.key .. ':tenants', from, '+', 'LIMIT', 0, 100)
    if #some == 0 then
      ends, q.purged = ends + 1, ''
    end
    for i = 1, #some do
      if #gone >= max then break end
      looked = looked + 1
      purgeTenant(some[i])
      if #gone < max then q.purged = some[i] end
    end
    q.changed = true
  end
  return q.ready + call('HLEN', q.key .. ':delayed')
end

local left
if tenant == '' then
  left = purgeAll()
else
  purgeTenant(tenant)
  left = waiting(q, tenant) + call('ZCARD', q.key .. ':late:' .. tenant)
end
bulk('HDEL', q.key .. ':tries', gone)
if q.tracked then
  tracking().cancel(q, gone)
  tracking().flush(q)
end
drop(q, gone, lanes, true)
vacate(q, touched)
save(q)
keep()
if q.tracked then due() end
return {#gone, left}

-- End leases of one queue: ack, retry or bury.
-- ARGV  3 uid  4 verb a, r or b  5 lanes  6 count  7 tokens, 16 bytes each, then
--       the names; with r the delays in ms; with r and b the errors; with a nothing or the outputs
-- Returns how many are dead because their attempts were spent, ms to the next
-- due entry, and the indexes of the items that are lost.
if not lane() then return 'lane_missing' end
local q = queue(ARGV[3])
if not q then return 'not_found' end
local verb, lanes, items, tokens = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local names = {unpack(ARGV, 8, 7 + items)}

-- Read and decide: live is what is leased under the token and has not ended.
-- Messages of one lease call begin alike, so that each beginning is read once.
local records = gather('HMGET', q.key .. ':leased', names)
local lost, live, groups, again, taken, found, heads, alive = {}, {}, {}, {}, {}, {}, {}, 0
local alike, leases, outputs = q.tracked and 36 or 28, {}, {}
for i = 1, items do
  local record, name, head = records[i], names[i], nil
  if record and not taken[name] then
    local first = string.sub(record, 1, alike)
    head = heads[first]
    if not head then
      local deadline, token, attempt, _, started = leased(q, record)
      head = {token = token, live = deadline > now, id = group(deadline, token), attempt = attempt, started = started, ending = false, class = false, size = 0}
      heads[first] = head
    end
  end
  if not head or not head.live or head.token ~= string.sub(tokens, 16 * i - 15, 16 * i) then
    lost[#lost + 1] = i - 1
  else
    alive = alive + 1
    groups[head.id], taken[name], live[alive] = (groups[head.id] or 0) + 1, true, name
    local who = string.sub(record, alike + 1)
    if q.tracked then leases[alive], outputs[alive] = head, ARGV[7 + items + i] or '' end
    found[alive] = verb == 'a' and who or {name, who, head.attempt, i, head.started}
    if head.attempt > 1 then again[#again + 1] = name end
  end
end

-- The leases of many tenants end at once: nobody can be waiting for that.
local function landAll()
  local tenants, counts, fresh, none, hollow = {}, {}, {}, {}, {}
  for i = 1, #found do
    local t = q.ordered and tenantOf(found[i]) or found[i]
    local seen = counts[t]
    if not seen then tenants[#tenants + 1] = t end
    counts[t] = (seen or 0) + 1
  end
  local hands = gather('HMGET', q.key .. ':hand', tenants)
  local kept, fewer = 0, {} -- what is written for a count, less one
  for i = 1, #tenants do
    local leased, rest = string.match(hands[i], '^(%d+)(.*)$')
    local by = counts[tenants[i]]
    local left = by == 1 and fewer[leased] or str(tonumber(leased) - by)
    if by == 1 then fewer[leased] = left end
    if left ~= '0' or rest ~= '.' then
      fresh[kept + 1], fresh[kept + 2] = tenants[i], left .. rest
      kept = kept + 2
      if q.hollow > 0 and left == '0' then hollow[#hollow + 1] = tenants[i] end -- after a purge it may hold nothing
    else
      none[#none + 1] = tenants[i]
    end
  end
  bulk('HSET', q.key .. ':hand', fresh)
  bulk('HDEL', q.key .. ':hand', none)
  vacate(q, none, true)
  vacate(q, hollow)
end

-- Many keys go on at once. Tenants enter in the order of their first key that does.
local function passAll()
  local idle, heads, tenants, of, keyed, owner = {}, {}, {}, {}, {}, {}
  for i = 1, #found do
    local who = found[i]
    local tenant = tenantOf(who)
    if #who > #tenant then keyed[#keyed + 1], owner[#keyed + 1] = who, tenant end
  end
  local lines = gather('HMGET', q.key .. ':head', keyed)
  for i = 1, #keyed do
    local who, tenant = keyed[i], owner[i]
    local line, name = shorten(q, who, lines[i])
    local t = of[tenant]
    if not t then
      t = {name = tenant, idle = {}, heads = {}, first = false}
      of[tenant], tenants[#tenants + 1] = t, t
    end
    if name then
      heads[#heads + 1], heads[#heads + 2] = who, line
      t.heads[#t.heads + 1], t.heads[#t.heads + 2] = name, '=' .. string.sub(who, #tenant + 2)
      t.first = t.first or i
    else
      idle[#idle + 1], t.idle[#t.idle + 1] = who, who
    end
  end
  bulk('HSET', q.key .. ':head', heads)
  bulk('HDEL', q.key .. ':head', idle)
  table.sort(tenants, function(a, b) return (a.first or 0) < (b.first or 0) end)
  for _, t in ipairs(tenants) do
    bulk('SREM', q.key .. ':lines:' .. t.name, t.idle)
    bulk('ZADD', q.key .. ':heads:' .. t.name, t.heads)
    if t.first then admit(q, t.name) end
  end
end

-- They end one by one, and each may let its tenant or its key go on.
local function landEach()
  local none = {}
  for i = 1, #found do
    local tenant = tenantOf(found[i])
    if land(q, tenant) <= 0 then none[#none + 1] = tenant end
    pass(q, found[i])
    readmit(q, tenant)
  end
  vacate(q, none)
end

-- Write.
local dead = 0
if #live > 0 then
  bulk('HDEL', q.key .. ':leased', live)
  part(q, groups)
  if q.tracked then tracking().look(q, live) end
  if verb == 'a' then
    if q.tracked then tracking().succeed(q, live, leases, outputs) end
    release(live)
    bulk('HDEL', q.key .. ':tries', again)
    settled(q, live, lanes)
    q.acked = q.acked + #live
    local many = q.free and q.parked == 0
    if many and q.ordered then passAll() end
    if many then landAll() else landEach() end
  end
  for i = 1, verb == 'a' and 0 or #found do
    local f = found[i]
    local tenant = tenantOf(f[2])
    land(q, tenant)
    if verb == 'b' then
      bury(q, f[1], f[2], f[3], 'b', ARGV[7 + items + f[4]], lanes, f[5])
    elseif retry(q, f[1], f[2], f[3], tonumber(ARGV[7 + items + f[4]]), ARGV[7 + 2 * items + f[4]], lanes, false, f[5]) == 'a' then
      dead = dead + 1
    end
    readmit(q, tenant)
  end
  if q.tracked then tracking().flush(q) end
  save(q)
end
keep()
return {dead, due(), lost}

-- Show waiting messages in the order of serving, one a turn, or one tenant's by name.
-- ARGV  3 uid  4 tenant, empty for all  5 limit  6 bytes
-- Returns name, tenant, attempts so far, body of each.
if not lane() then return 'lane_missing' end
local q = queue(ARGV[3])
if not q then return 'not_found' end
local tenant, limit, bytes = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])

-- The first messages of a facet.
local function first(t, size)
  if q.ordered then
    local heads, names = call('ZRANGE', q.key .. ':heads:' .. t, 0, size - 1, 'WITHSCORES'), {}
    for i = 2, #heads, 2 do names[#names + 1] = heads[i] end
    return names
  end
  local names = q.back > 0 and call('ZRANGE', q.key .. ':back:' .. t, 0, size - 1) or {}
  local _, _, near = handOf(q, t)
  if q.tracked and #names > 0 then
    local fresh = words(near)
    local rest = call('LRANGE', q.key .. ':facet:' .. t, 0, size - 1)
    for i = 1, #rest do fresh[#fresh + 1] = rest[i] end
    return (merge(names, fresh, size))
  end
  for _, rest in ipairs({words(near), call('LRANGE', q.key .. ':facet:' .. t, 0, size - 1)}) do
    for i = 1, math.min(#rest, size - #names) do names[#names + 1] = rest[i] end
  end
  return names
end

-- Turn by turn, as long as someone has more. A first look shows each tenant's share; who
-- is asked for more has all of it read.
local function turns()
  local ring, names, whose = call('LRANGE', q.key .. ':ring', 0, 999), {}, {}
  local share, line = math.ceil(limit / math.max(#ring, 1)) + 1, {}
  for i = 1, #ring do
    line[i] = {tenant = ring[i], list = first(ring[i], share)}
  end
  local turn = 1
  while #names < limit and #line > 0 do
    local more = {}
    for _, f in ipairs(line) do
      if turn > #f.list and #f.list == share then f.list = first(f.tenant, limit) end
      if #names < limit and f.list[turn] then
        names[#names + 1], whose[#whose + 1] = f.list[turn], f.tenant
        more[#more + 1] = f
      end
    end
    line, turn = more, turn + 1
  end
  return names, whose
end

local names, whose
local most = limit
if q.tracked and (tonumber(call('HGET', q.key, 'cancelled')) or 0) > 0 then limit = 1000 end -- those that were cancelled are not shown
if tenant == '' then names, whose = turns() else names, whose = first(tenant, limit), {} end
local tries, reply, size = gather('HMGET', q.key .. ':tries', names), {}, 0
if q.tracked then tracking().look(q, names) end
for i = 1, #names do
  local gone = q.tracked and q.notes[names[i]] and q.notes[names[i]].gone
  local body = not gone and call('HGET', T .. ':body', names[i])
  size = size + (body and #body or 0)
  if size > bytes and #reply > 0 or #reply == 4 * most then break end
  for _, v in ipairs(body and {names[i], whose[i] or tenant, tonumber(tries[i]) or 0, body} or {}) do reply[#reply + 1] = v end
end
return reply

-- List tenants by name that hold anything or have settings, or show one.
-- ARGV  3 uid  4 name to begin after  5 limit; 0 to show the one of this name
-- Returns name, ready, leased, delayed, dead, own weight and limit, oldest name of each.
if not lane() then return 'lane_missing' end
local q = queue(ARGV[3])
if not q then return 'not_found' end

-- The oldest waiting message; in an ordered queue of at most 1,000 keys that are blocked,
-- over all tenants of the call.
local budget = 1000
local function oldest(t)
  local first
  local function older(name)
    name = tonumber(name)
    if name and (not first or name < first) then first = name end
  end
  older(call('ZRANGE', q.key .. ':back:' .. t, 0, 0)[1])
  older(call('LINDEX', q.key .. ':facet:' .. t, 0))
  local _, _, names = handOf(q, t)
  older(words(names)[1])
  if q.ordered then
    older(call('ZRANGE', q.key .. ':heads:' .. t, 0, 0, 'WITHSCORES')[2])
    local lines = budget > 0 and call('SRANDMEMBER', q.key .. ':lines:' .. t, budget) or {}
    budget = budget - #lines
    local all = gather('HMGET', q.key .. ':head', lines)
    for i = 1, #lines do older(words(all[i])[2] or call('LINDEX', q.key .. ':behind:' .. lines[i], 0)) end
  end
  return first or 0
end

local tenants, reply = {ARGV[4]}, {}
if ARGV[5] ~= '0' then
  tenants = call('ZRANGEBYLEX', q.key .. ':tenants', ARGV[4] == '' and '-' or '(' .. ARGV[4], '+', 'LIMIT', 0, ARGV[5])
end
for i = 1, #tenants do
  local t = tenants[i]
  local shown = {
    t, waiting(q, t), (handOf(q, t)), call('ZCARD', q.key .. ':late:' .. t),
    call('ZCARD', q.key .. ':lost:' .. t), call('HGET', q.key .. ':tenant', t) or '', str(oldest(t)),
  }
  for j = 1, #shown do reply[#reply + 1] = shown[j] end
end
return reply

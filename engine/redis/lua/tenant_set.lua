-- Give a tenant a weight and a limit of its own, or take them away.
-- ARGV  3 uid  4 tenant  5 weight and limit, empty to take them away
-- Returns 1.
if not lane() then return 'lane_missing' end
local q = queue(ARGV[3])
if not q then return 'not_found' end
local tenant, own = ARGV[4], ARGV[5]
if own ~= '' then
  tally(q, 'special', call('HSET', q.key .. ':tenant', tenant, own))
  enlist(q, {tenant})
else
  tally(q, 'special', -call('HDEL', q.key .. ':tenant', tenant))
  vacate(q, {tenant})
end
readmit(q, tenant)
save(q)
return 1

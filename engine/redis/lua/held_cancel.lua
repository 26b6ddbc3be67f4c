-- Take the delayed event that has an id back. Its digest is remembered on.
-- ARGV  3 tenant, NUL, id
-- Returns 1; 'not_held' if there is none.
if not lane() then return 'lane_missing' end
local name = call('ZREVRANGE', T .. ':alias:' .. ARGV[3], 0, 0)[1]
if not name then return 'not_held' end
unheld(name, ARGV[3])
return 1

-- Forget a node at once.
-- ARGV  3 node
-- Returns 1 if it was there.
if not lane() then return 'lane_missing' end
return call('HDEL', T .. ':nodes', ARGV[3])

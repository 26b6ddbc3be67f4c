-- Drop the lane's record of a topic.
-- ARGV  3 topic
-- Returns 1 if there was one.
if not lane() then return 'lane_missing' end
return call('HDEL', T .. ':topics', ARGV[3])

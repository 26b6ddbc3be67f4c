-- List the topics that the lane has seen.
-- Returns name, "count last_ms" of each.
if not lane() then return 'lane_missing' end
return call('HGETALL', T .. ':topics')

-- Note that a node watches the lane's events. The first publish that reaches nobody
-- takes the note away.
if not lane() then return 'lane_missing' end
return call('HSET', T, 'live', '1')

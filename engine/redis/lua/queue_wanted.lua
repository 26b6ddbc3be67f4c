-- Tell which queues are wanted in the lane.
-- Returns their uids, in a list.
if not lane() then return 'lane_missing' end
return {call('SMEMBERS', T .. ':wanted')}

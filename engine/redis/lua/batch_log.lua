-- Show what was logged of a subscription's attempts.
-- ARGV  3 uid
-- Returns the entries, newest first.
if not lane() then return 'lane_missing' end
local s = batch.sub(ARGV[3])
if not s then return 'no_subscription' end
return call('LRANGE', s.key .. ':log', 0, -1)

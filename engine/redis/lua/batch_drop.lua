-- Remove a batch that is not being sent.
-- ARGV  3 uid  4 name
-- Returns 1.
if not lane() then return 'lane_missing' end
local s = batch.sub(ARGV[3])
if not s then return 'no_subscription' end
local b = batch.get(s, ARGV[4])
if not b then return 'no_batch' end
if b.state == 'P' then return 'pending' end
batch.drop(s, b)
batch.save(s)
keep()
return 1

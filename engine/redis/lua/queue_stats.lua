-- Count a queue's messages in the lane.
-- ARGV  3 uid
-- Returns ready, leased, delayed, dead, tenants, oldest minute, acked, spent, dropped, cancelled;
-- nothing if the lane does not know the queue.
if not lane() then return 'lane_missing' end
local q = queue(ARGV[3])
if not q then return {} end
local oldest = tonumber(call('ZRANGE', q.key .. ':ages', 0, 0)[1]) or q.young > 0 and q.minute or 0
local tenants = q.ordered and call('HLEN', q.key .. ':waiting') or call('LLEN', q.key .. ':ring') - q.hollow + q.parked
return {
  q.ready, call('HLEN', q.key .. ':leased') - 1, call('HLEN', q.key .. ':delayed'), call('ZCARD', q.key .. ':dead'),
  tenants, oldest, q.acked, q.spent, q.dropped,
  q.tracked and tonumber(call('HGET', q.key, 'cancelled')) or 0,
}

-- Count what the lane knows of a subscription.
-- ARGV  3 uid
-- Returns events queued, in dead batches, sent; attempts failed; events dropped, skipped;
-- batches, of these pending; times: the oldest batch was opened, it fails since, it is
-- parked until; 1 if it is parked or probing; why it failed. Nothing of an unknown uid.
if not lane() then return 'lane_missing' end
local s = batch.sub(ARGV[3])
if not s then return {} end
local key, oldest = s.key, nil
for _, set in ipairs({':early', ':ready', ':pending'}) do
  local first = tonumber(call('ZRANGE', key .. set, 0, 0)[1])
  if first and first < (oldest or math.huge) then oldest = first end
end
local batches = call('ZCARD', key .. ':early') + s.ready + s.pending + call('ZCARD', key .. ':dead')
return {
  s.queued, s.lost, s.sent, s.failed, s.dropped, s.skipped, batches, s.pending,
  oldest and batch.get(s, str(oldest)).created or 0, s.since, s.parked, (s.parked > 0 or s.probing == 1) and 1 or 0,
  call('HGET', key, 'reason') or '',
}

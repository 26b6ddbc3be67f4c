-- Tell the lane of a version of the registry: settings of queues, removed uids.
-- ARGV  3 version  4 count of queues  5 count of removed, then uid, version,
--       max attempts of each queue, then the removed uids
-- Returns the uids of the queues that were removed before.
local m = lane('v')
if not m then return 'lane_missing' end
local version, queues, removed = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local past = {}

for i = 1, removed do
  local u = ARGV[5 + 3 * queues + i]
  if call('SADD', T .. ':removed', u) == 1 and call('HDEL', T .. ':q:' .. u, 'version') == 1 then
    call('RPUSH', T .. ':trash', u)
    gone = gone + 1
  end
end
for i = 1, queues do
  local u, v, max = ARGV[3 * i + 3], tonumber(ARGV[3 * i + 4]), ARGV[3 * i + 5]
  if call('SISMEMBER', T .. ':removed', u) == 1 then
    past[#past + 1] = u
  elseif (tonumber(call('HGET', T .. ':q:' .. u, 'version')) or -1) <= v then
    call('HSET', T .. ':q:' .. u, 'version', v, 'max', max)
  end
end
keep('v', math.max(version, tonumber(m[5]) or 0), 'gone', gone)
return past

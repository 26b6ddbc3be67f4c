-- Count one firing, unless there were as many as may be in this minute.
-- ARGV  3 uid  4 most of a minute; 0 for no limit
-- Returns how often it fired, when last, and how many ms the minute lasts still if it may not; else 0.
-- 'no_trigger' if it was removed.
if not lane() then return 'lane_missing' end
if call('SISMEMBER', T .. ':removed', ARGV[3]) == 1 then return 'no_trigger' end
local most, record = tonumber(ARGV[4]), call('HGET', T .. ':fired', ARGV[3])
local count, last, within = 0, 0, 0
if record then count, last, within = struct.unpack('<ddd', record) end
if floor(last / 60000) ~= floor(now / 60000) then within = 0 end
local wait = 0
if most > 0 and within >= most then
  wait = 60000 - now % 60000
else
  count, last = count + 1, now
  call('HSET', T .. ':fired', ARGV[3], struct.pack('<ddd', count, last, within + 1))
end
keep()
return {count, last, wait}

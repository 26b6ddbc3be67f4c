-- Write a lane's identity, unless it has one.
-- ARGV  1 store id  2 format  3 lanes  4 lane
-- Returns the identity that is there now: id, format, lanes, lane.
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'id', ARGV[1], 'format', ARGV[2], 'lanes', ARGV[3], 'lane', ARGV[4])
end
return redis.call('HMGET', KEYS[1], 'id', 'format', 'lanes', 'lane')

-- Record that all lanes have been created: from now on a missing one has vanished.
-- ARGV  1 store id
if redis.call('HGET', KEYS[1], 'id') ~= ARGV[1] then return 'lane_missing' end
return redis.call('HSET', KEYS[1], 'ready', '1')

-- Take back an identity that was written over the lanes of another store.
-- ARGV  1 store id
-- Returns 1 if it was taken back.
local there = redis.call('HMGET', KEYS[1], 'id', 'ready')
if there[1] ~= ARGV[1] or there[2] then return 0 end
return redis.call('DEL', KEYS[1])

-- Write the store's identity, unless it has one.
-- ARGV  1 store id  2 format  3 lanes  4 namespace
-- Returns the identity that is there now: id, format, lanes, namespace, ready,
-- and 1 if this call wrote it.
local created = redis.call('EXISTS', KEYS[1]) == 0
if created then
  redis.call('HSET', KEYS[1], 'id', ARGV[1], 'format', ARGV[2], 'lanes', ARGV[3], 'namespace', ARGV[4], 'version', 0)
end
local reply = redis.call('HMGET', KEYS[1], 'id', 'format', 'lanes', 'namespace', 'ready')
reply[5] = reply[5] or '0'
reply[6] = created and 1 or 0
return reply

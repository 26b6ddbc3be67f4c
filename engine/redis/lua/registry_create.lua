-- Write the store's identity, unless it has one.
-- ARGV  1 store id  2 format  3 lanes, 0 to create nothing  4 namespace
-- Returns the identity that is there now: id, format, lanes, namespace, ready,
-- and 1 if this call wrote it; 'narrow' if the server cannot hold our numbers;
-- 'no_store' if there is none and none is to be created.
-- Scripts write seqs as text with %d, which takes a server with 64 bits.
if string.format('%d', 2 ^ 52 + 1) ~= '4503599627370497' then return 'narrow' end
local created = redis.call('EXISTS', KEYS[1]) == 0
if created and ARGV[3] == '0' then return 'no_store' end
if created then
  redis.call('HSET', KEYS[1], 'id', ARGV[1], 'format', ARGV[2], 'lanes', ARGV[3], 'namespace', ARGV[4], 'version', 0)
end
local reply = redis.call('HMGET', KEYS[1], 'id', 'format', 'lanes', 'namespace', 'ready')
reply[5] = reply[5] or '0'
reply[6] = created and 1 or 0
return reply

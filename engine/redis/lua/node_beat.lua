-- Record that a node is alive and forget those that are not.
-- ARGV  3 node, empty to look only  4 its record  5 ms after which a silent node is forgotten
-- Returns id, seen ms, record of each node.
if not lane() then return 'lane_missing' end
local node, record, ttl, list = ARGV[3], ARGV[4], tonumber(ARGV[5]), {}
if node ~= '' then
  call('ZADD', T .. ':seen', now, node)
  call('HSET', T .. ':nodes', node, record)
end
local silent = call('ZRANGEBYSCORE', T .. ':seen', '-inf', now - ttl)
for i = 1, #silent do
  if silent[i] ~= node then
    call('ZREM', T .. ':seen', silent[i])
    call('HDEL', T .. ':nodes', silent[i])
  end
end
local nodes = call('ZRANGE', T .. ':seen', 0, -1, 'WITHSCORES')
for i = 1, #nodes, 2 do
  list[#list + 1], list[#list + 2] = nodes[i], nodes[i + 1]
  list[#list + 1] = call('HGET', T .. ':nodes', nodes[i])
end
keep()
return list

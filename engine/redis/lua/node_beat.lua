-- Record that a node is alive and forget those that are not.
-- ARGV  3 node, empty to look only  4 its record  5 ms after which a silent node is forgotten
-- Returns id, seen ms, record of each node.
if not lane() then return 'lane_missing' end
local node, ttl, list = ARGV[3], tonumber(ARGV[5]), {}
if node ~= '' then call('HSET', T .. ':nodes', node, str(now) .. ' ' .. ARGV[4]) end
local nodes = call('HGETALL', T .. ':nodes')
for i = 1, #nodes, 2 do
  local seen, record = string.match(nodes[i + 1], '^(%d+) (.*)$')
  if seen and (nodes[i] == node or tonumber(seen) > now - ttl) then
    list[#list + 1], list[#list + 2], list[#list + 3] = nodes[i], seen, record
  else
    call('HDEL', T .. ':nodes', nodes[i])
  end
end
keep()
return list

-- Write a definition as the registry's next version, if it replaces what the
-- caller has seen.
-- ARGV  3 kind/name  4 uid  5 spec  6 1 to delete  7 version it replaces
--       8 how many deleted ones are kept
-- Returns the version; 'changed' if another definition is there.
local m = lane('version', 'floor')
if not m then return 'lane_missing' end
local name, u, spec, deleted = ARGV[3], ARGV[4], ARGV[5], ARGV[6] == '1'
local version, floorAt = tonumber(m[3]) + 1, tonumber(m[4]) or 0
local there = call('HGET', T .. ':name:' .. name, 'version')
if tonumber(there or 0) ~= tonumber(ARGV[7]) then return 'changed' end

if there then call('ZREM', T .. ':names', name) end
if deleted then
  -- A deleted one is kept under its own uid: the name may come back with another.
  local trace = u .. ' ' .. name
  call('ZADD', T .. ':deleted', version, trace)
  call('HSET', T .. ':traces', trace, spec)
  call('DEL', T .. ':name:' .. name)
  local over = call('ZCARD', T .. ':deleted') - tonumber(ARGV[8])
  if over > 0 then
    local old = call('ZPOPMIN', T .. ':deleted', over)
    for i = 1, #old, 2 do
      call('HDEL', T .. ':traces', old[i])
      floorAt = math.max(floorAt, tonumber(old[i + 1]))
    end
  end
else
  call('HSET', T .. ':name:' .. name, 'version', version, 'uid', u, 'spec', spec)
  call('ZADD', T .. ':names', version, name)
end
keep('version', version, 'floor', floorAt)
hint('r')
return {version}

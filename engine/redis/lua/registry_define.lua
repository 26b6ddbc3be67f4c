-- Write definitions as the registry's next versions, if each replaces what the
-- caller has seen; otherwise none.
-- ARGV  3 how many deleted ones are kept
--       of each: 4 kind/name  5 uid  6 spec  7 1 to delete  8 version it replaces
-- Returns the version of each; 'changed' if another definition is there.
local m = lane('version', 'floor')
if not m then return 'lane_missing' end
local version, floorAt = tonumber(m[3]), tonumber(m[4]) or 0
local there, done = {}, {}
for i = 4, #ARGV, 5 do
  there[i] = call('HGET', T .. ':name:' .. ARGV[i], 'version')
  if tonumber(there[i] or 0) ~= tonumber(ARGV[i + 4]) then return 'changed' end
end

-- A deleted one is kept under its own uid: the name may come back with another.
local function forget(name, u, spec)
  local trace = u .. ' ' .. name
  call('ZADD', T .. ':deleted', version, trace)
  call('HSET', T .. ':traces', trace, spec)
  call('DEL', T .. ':name:' .. name)
  local over = call('ZCARD', T .. ':deleted') - tonumber(ARGV[3])
  if over <= 0 then return end
  local old = call('ZPOPMIN', T .. ':deleted', over)
  for i = 1, #old, 2 do
    call('HDEL', T .. ':traces', old[i])
    floorAt = math.max(floorAt, tonumber(old[i + 1]))
  end
end

for i = 4, #ARGV, 5 do
  local name, u, spec = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  version = version + 1
  if there[i] then call('ZREM', T .. ':names', name) end
  if ARGV[i + 3] == '1' then
    forget(name, u, spec)
  else
    call('HSET', T .. ':name:' .. name, 'version', version, 'uid', u, 'spec', spec)
    call('ZADD', T .. ':names', version, name)
  end
  done[#done + 1] = version
end
keep('version', version, 'floor', floorAt)
hint('r')
return done

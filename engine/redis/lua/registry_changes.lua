-- List what changed in the registry after a version.
-- ARGV  3 version
-- Returns the registry's version, 1 if this is all there is, and version, uid,
-- 1 if deleted, kind/name, spec of each definition.
local m = lane('version', 'floor')
if not m then return 'lane_missing' end
local since, version = tonumber(ARGV[3]), tonumber(m[3])
local full = since == 0 or since > version or since < (tonumber(m[4]) or 0)
local from, list = full and '-inf' or '(' .. ARGV[3], {}
local function add(...) for i = 1, select('#', ...) do list[#list + 1] = (select(i, ...)) end end

local names = call('ZRANGEBYSCORE', T .. ':names', from, '+inf')
for i = 1, #names do
  local d = call('HMGET', T .. ':name:' .. names[i], 'version', 'uid', 'spec')
  add(d[1], d[2], '0', names[i], d[3])
end
local traces = call('ZRANGEBYSCORE', T .. ':deleted', from, '+inf', 'WITHSCORES')
for i = 1, #traces, 2 do
  local u, name = string.match(traces[i], '^(%S*) (.*)$')
  add(traces[i + 1], u, '1', name, call('HGET', T .. ':traces', traces[i]))
end
return {version, full and 1 or 0, list}

-- List batches of a subscription by name.
-- ARGV  3 uid  4 state, empty for all  5 name to begin after  6 limit  7 a name, to list that alone
-- Returns name, state, 1 if it collects, events, bytes, attempts, time it was opened, due
-- time, node, error of each; with a name also the names of its events and their bodies.
if not lane() then return 'lane_missing' end
local s = batch.sub(ARGV[3])
if not s then return 'no_subscription' end
local limit, names, list = tonumber(ARGV[6]), {}, {}

local function show(name)
  local b = batch.get(s, name)
  if not b then return end
  for _, v in ipairs({name, b.state, b.current and 1 or 0, b.count, b.bytes, b.attempts, b.created, b.due, b.node, b.error}) do
    list[#list + 1] = v
  end
end

if ARGV[7] ~= '' then
  show(ARGV[7])
  if #list == 0 then return 'no_batch' end
  local events = call('LRANGE', s.key .. ':events:' .. ARGV[7], 0, -1)
  return {list, events, gather('HMGET', T .. ':body', events)}
end
for state, set in pairs(states) do
  local some = {}
  if ARGV[4] == '' or ARGV[4] == state then
    some = call('ZRANGEBYSCORE', s.key .. set, '(' .. ARGV[5], '+inf', 'LIMIT', 0, limit)
  end
  for i = 1, #some do names[#names + 1] = some[i] end
end
table.sort(names, function(a, b) return tonumber(a) < tonumber(b) end)
for i = 1, math.min(limit, #names) do show(names[i]) end
return {list}

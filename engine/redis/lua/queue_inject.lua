-- Put events that were stamped before into one queue, each under a name of this lane.
-- ARGV  3 uid  4 lanes  5 lane  6 count, then tenant, who, seq, prev, recorded ms, body of each;
--       then, if there are any, of each what its operation is opened with, its payload if that is long, its subject
-- Returns ms to the next due entry.
if not lane() then return 'lane_missing' end
local q = queue(ARGV[3])
if not q then return 'not_found' end
local lanes, own, events = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local n = math.max(L.n + 1, (now - 1735689600000) * 128) - 1
for i = 1, q.tracked and events or 0 do
  if (ARGV[6 + 6 * events + 3 * i - 2] or '') == '' then return 'no_openings' end
end

L.n = n + events
keep()
local minutes, order = {}, {}

local function lineLast(tenant, name)
  local there = call('HGET', q.key .. ':hand', tenant)
  if not (there and string.find(there, '@', 1, true)) then there = nil end
  local after = queueUp(q, tenant, {name}, there)
  if after ~= there then call('HSET', q.key .. ':hand', tenant, after) end
end

for i = 1, events do
  local at = 6 * i
  local tenant, who, name = ARGV[at + 1], ARGV[at + 2], str((n + i) * lanes + own)
  local stamps = struct.pack('<Bddd', 2, tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5]), tonumber(ARGV[at + 3]))
  call('HSET', T .. ':body', name, stamps .. ARGV[at + 6])
  local span = minute(n + i)
  if not minutes[span] then minutes[span], order[#order + 1] = 0, span end
  minutes[span] = minutes[span] + 1
  wait(q, tenant, 1)
  local leasable = true
  if q.ordered then leasable = lineUp(q, name, who) else lineLast(tenant, name) end
  enlist(q, {tenant})
  if leasable then admit(q, tenant) end
  if q.tracked then
    tracking().note(q, name) -- its body does not tell of its operation
    tracking().open(q, name, name, now, ARGV[6 + 6 * events + 3 * i - 2], ARGV[6 + 6 * events + 3 * i - 1], ARGV[6 + 6 * events + 3 * i])
  end
end
for _, span in ipairs(order) do age(q, span, minutes[span]) end
if q.tracked then tracking().flush(q) end
save(q)
return due()

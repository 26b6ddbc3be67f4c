-- The part of a publish that is only there if an event goes to a subscription: read them,
-- and which classes of events each takes.
-- ARGV  after the names of topics: uids of subscriptions; after what few events have: of
--       each class how many subscriptions take it, and which
local subs, pushed = {}, {}
for i = 1, nS do
  subs[i] = batch.sub(ARGV[aP + nP + i]) or {}
  queues[2 ^ 24 + i] = subs[i] -- as requests name them
end
at = 1
for i = 1, nC do
  local count
  count, at = struct.unpack('<I4', ARGV[body0], at)
  pushed[i] = {}
  for j = 1, count do
    local s
    s, at = struct.unpack('<I4', ARGV[body0], at)
    pushed[i][j] = subs[s]
  end
end

-- An event joins the batches of its subscriptions. Returns how many take it.
function push(e, kind, name)
  local took, size = 0, #ARGV[body0 + e] - (string.byte(ARGV[body0 + e]) == 3 and 17 or 1)
  for _, s in ipairs(pushed[kind]) do
    if collect(s, name, size) then took = took + 1 end
  end
  return took
end

-- Which subscriptions took nothing, for their events have fewer sinks.
function pushAll()
  local disabled = {}
  flush()
  for i = 1, nS do
    if subs[i].disabled then disabled[#disabled + 1] = ARGV[aP + nP + i] end
  end
  return disabled
end

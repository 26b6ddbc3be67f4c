-- Put events that were stamped before into one subscription, each under a name of this lane.
-- ARGV  3 uid  4 lanes  5 lane  6 count, then tenant, who, seq, prev, recorded ms, body of each
-- Returns ms to the next due entry.
if not lane() then return 'lane_missing' end
local s = batch.sub(ARGV[3])
if not s then return 'no_subscription' end
local lanes, own, events, bodies = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), {}
local n = math.max(L.n + 1, (now - 1735689600000) * 128) - 1
L.n = n + events
for i = 1, events do
  local at, name = 6 * i, str((n + i) * lanes + own)
  if collect(s, name, #ARGV[at + 6]) then
    local stamps = struct.pack('<Bddd', 2, tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5]), tonumber(ARGV[at + 3]))
    bodies[#bodies + 1], bodies[#bodies + 2] = name, stamps .. ARGV[at + 6]
  end
end
keep()
bulk('HSET', T .. ':body', bodies)
flush()
return due()

-- Remove the oldest batches of all subscriptions, but none that is pending. Entries of
-- removed subscriptions fall out, up to 1,000. After 10,000 events it stops.
-- ARGV  3 max
-- Returns 1 if there may be more, then uid, name, events of each.
if not lane() then return 'lane_missing' end
local max, gone, events = tonumber(ARGV[3]), {}, 0
local entries = call('ZRANGE', T .. ':batches', 0, max + 999)
for i = 1, #entries do
  if #gone >= 3 * max or events >= 10000 then break end
  local u, name = string.match(entries[i], '^(.*)!(%d+)$')
  local s = batch.of(u)
  if s then
    local b = batch.get(s, name)
    batch.drop(s, b)
    events = events + b.count
    gone[#gone + 1], gone[#gone + 2], gone[#gone + 3] = u, name, b.count
  else
    call('ZREM', T .. ':batches', entries[i])
  end
end
batch.saveAll()
keep()
return {#entries > 0 and 1 or 0, gone}

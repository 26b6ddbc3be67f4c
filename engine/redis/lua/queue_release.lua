-- End leases that were taken under a consumer's name, as if their deadline had come.
-- ARGV  3 uid  4 consumer  5 max  6 lanes
-- Returns how many, and ms to the next due entry.
if not lane() then return 'lane_missing' end
local q = queue(ARGV[3])
if not q then return 'not_found' end
local consumer, max, lanes = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local ended = 0
while ended < max do
  local id = call('ZRANGE', q.key .. ':by:' .. consumer, 0, 0)[1]
  if not id then break end
  local found = members(q, id, max - ended)
  if #found == 0 then break end -- an empty group is not listed
  for _, f in ipairs(found) do lapse(q, f, lanes) end
  part(q, {[id] = #found})
  ended = ended + #found
end
if q.tracked then tracking().flush(q) end
save(q)
keep()
return {ended, due()}

-- List operations of a subject or of a queue, the highest number first.
-- ARGV  3 subject  4 uid  5 status, by its first letter; empty for any  6 tenant, empty for all
--       7 number to begin below, 0 for none  8 limit  9 how many to look at at most  10 bytes
-- Returns the lowest number it looked at, or 0 if there is no lower one, and the operations.
if not lane() then return 'lane_missing' end
local subject, uid, status, tenant = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local limit, most, bytes = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local id = 's' .. subject
if subject == '' then
  if not queue(uid) then return {0, {}} end
  id = 'q' .. uid
end

local function fits(o)
  return not expired(o) and (uid == '' or o.uid == uid) and (status == '' or o.status == status) and (tenant == '' or o.tenant == tenant)
end

local found, looked, size, from, last, more = {}, 0, 0, ARGV[7] == '0' and math.huge or tonumber(ARGV[7]), '0', true

-- Look at the next of the index. Returns whether there may be more to look at.
local function look(count)
  local numbers = indexing().page(id, from, count + 1) -- one more tells whether there is a lower one
  local lower = #numbers > count
  if lower then table.remove(numbers) end
  local some = view(numbers)
  for i = 1, #some do
    local o = some[i]
    if #found == limit or size > bytes then return false end
    looked, last = looked + 1, o.number
    if fits(o) then
      found[#found + 1] = o
      size = size + #o.record + #o.ended + (string.byte(o.record, -1) == 2 and call('HSTRLEN', T .. ':oload', o.number) or 0)
    end
  end
  from, more = tonumber(numbers[#numbers]) or 0, lower
  return lower
end

while looked < most and #found < limit and size <= bytes do
  if not look(math.min(most - looked, math.max(limit - #found, looked == 0 and 1 or 20), 100)) then break end
end
if not more then last = '0' end
return {last, show(found)}

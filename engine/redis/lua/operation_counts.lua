-- Read what was counted of a queue's operations.
-- ARGV  3 uid  4 length of the buckets: m, h or d  5 since ms  6 until ms
-- Returns the total, and the beginning in ms and the counts of each bucket, by time.
if not lane() then return 'lane_missing' end
local q = queue(ARGV[3])
if not q then return {} end
local c = counting()
local name, span, kept = unpack(c.lengths[ARGV[4]])
local sum, rest = c.now(q)
local total = c.total(sum, rest)
local current = rest.at and floor(tonumber(rest.at) / span) or -1
local first = math.max(math.ceil(tonumber(ARGV[5]) / 60000 / span), math.ceil((now / 60000 - kept) / span))
local last = math.min(math.ceil(tonumber(ARGV[6]) / 60000 / span) - 1, floor(now / 60000 / span))
local fields, list = {}, {}
for at = first, last do fields[#fields + 1] = str(at) end
local found = gather('HMGET', q.key .. ':' .. name, fields)
for at = first, last do
  local packed = found[at - first + 1]
  if at == current then packed = c.pack(packed and c.add(packed, sum) or sum) end
  if packed then list[#list + 1], list[#list + 2] = str(at * span * 60000), packed end
end
return {total, list}

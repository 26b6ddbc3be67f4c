-- The first part of a lease: read, and write nothing. The ring's turns are played
-- on what the facets show.
-- ARGV  3 uid  4 max  5 bytes  6 ms  7 token
if not lane() then return 'lane_missing' end
local q = queue(ARGV[3])
if not q then return 'not_found' end
local max, bytes, token = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[7]

-- See at least the next count + 1 messages of a facet, if there are as many:
-- what came back first, it is older than the rest.
local function see(f, count)
  f.seen, f.list, f.back = count, {}, 0
  if q.back > 0 then
    f.list = call('ZRANGE', q.key .. ':back:' .. f.tenant, 0, count)
    f.back = #f.list
  end
  if f.back > count then return end
  local rest = call('LRANGE', q.key .. ':facet:' .. f.tenant, 0, count - f.back)
  if f.back == 0 then f.list = rest return end
  for i = 1, #rest do f.list[#f.list + 1] = rest[i] end
end

-- Read: play the ring's turns on what the facets show.
local ring = call('LRANGE', q.key .. ':ring', 0, max - 1)
local line, turns, seqs = {}, {}, {}
for i = 1, #ring do line[i] = {tenant = ring[i], took = 0} end
local quota, head, tail = math.ceil(max / math.max(#ring, 1)), 1, #ring
while #turns < max and head <= tail do
  local f = line[head]
  head = head + 1
  if not f.list then see(f, quota) elseif f.took == f.seen then see(f, f.took + max - #turns) end
  f.took = f.took + 1
  turns[#turns + 1], seqs[#seqs + 1] = f, f.list[f.took]
  if f.list[f.took + 1] then tail = tail + 1 line[tail] = f end
end

-- Read: the bodies in that order, as far as the bytes reach.
local bodies, size, count = {}, 0, #turns
for i = 1, #turns, 50 do
  local some = call('HMGET', T .. ':body', unpack(seqs, i, math.min(i + 49, #turns)))
  for j = 1, #some do
    size = size + #some[j] - 16
    if size > bytes and i + j > 2 then count = i + j - 2 break end
    bodies[i + j - 1] = some[j]
  end
  if count < #turns then break end
end


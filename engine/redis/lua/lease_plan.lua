-- The first part of a lease: read, and write nothing but who may enter by now. The
-- ring's turns are played on what the facets show.
-- ARGV  3 uid  4 max  5 bytes  6 ms; 0: at most once  7 token  8 consumer  9 lanes
if not lane() then return 'lane_missing' end
local q = queue(ARGV[3])
if not q then return 'not_found' end
local max, bytes, token = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[7]
if q.paused then
  q.wanted = true
  save(q)
  keep()
  return {now, 0, due(), {}, {}}
end
if q.wake ~= '' then rouse(q) end

-- See at least the next size + 1 messages of a facet, if there are as many: what came
-- back first, it is older than the rest; of an ordered queue the heads of keys.
local function see(f, size)
  f.seen, f.list, f.back = size, {}, 0
  if q.ordered then
    local heads = call('ZRANGE', q.key .. ':heads:' .. f.tenant, 0, size, 'WITHSCORES')
    if q.tried == nil then q.tried = call('EXISTS', q.key .. ':tries') == 1 end
    f.at, f.back = {}, q.tried and size + 1 or 0
    for i = 1, #heads, 2 do f.at[#f.at + 1], f.list[#f.list + 1] = heads[i], heads[i + 1] end
    return
  end
  if q.back > 0 then
    f.list = call('ZRANGE', q.key .. ':back:' .. f.tenant, 0, size)
    f.back = #f.list
  end
  if f.back > size then return end
  local rest = call('LRANGE', q.key .. ':facet:' .. f.tenant, 0, size - f.back)
  if f.back == 0 then f.list = rest return end
  for i = 1, #rest do f.list[#f.list + 1] = rest[i] end
end

-- Read: play the ring's turns on what the facets show, one message a turn.
local simple = q.free and q.hollow == 0
local ring, turns, names, played = {}, {}, {}, nil
if simple then
  ring = call('LRANGE', q.key .. ':ring', 0, max - 1)
  local line = {}
  for i = 1, #ring do line[i] = {tenant = ring[i], took = 0} end
  local quota, head, tail = math.ceil(max / math.max(#ring, 1)), 1, #ring
  while #turns < max and head <= tail do
    local f = line[head]
    head = head + 1
    if not f.list then see(f, quota) elseif f.took == f.seen then see(f, f.took + max - #turns) end
    f.took = f.took + 1
    turns[#turns + 1], names[#names + 1] = f, f.list[f.took]
    if f.list[f.took + 1] then tail = tail + 1 line[tail] = f end
  end
else
  played = playTurns(q, max, max, see)
  turns, names = played.turns, played.names
end

-- Read: the bodies in that order, as far as the bytes reach.
local bodies, size, count = {}, 0, #turns
for i = 1, #turns, 50 do
  local some = call('HMGET', T .. ':body', unpack(names, i, math.min(i + 49, #turns)))
  for j = 1, #some do
    size = size + #some[j] - (string.byte(some[j], 8) < 128 and 16 or 24)
    if size > bytes and i + j > 2 then count = i + j - 2 break end
    bodies[i + j - 1] = some[j]
  end
  if count < #turns then break end
end
if played and count < #turns then
  played = playTurns(q, max, count, see)
  turns, names = played.turns, played.names
end


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
-- back first, it is older than the rest; of an ordered queue the heads of keys. Of the
-- facet's list so many more are seen that the hand can be filled again.
local function see(f, size)
  f.seen, f.list, f.back, f.own = size, {}, 0, 0
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
    if f.back > size then return end
  end
  local near = words(f.names)
  for i = 1, #near do f.list[f.back + i] = near[i] end
  f.own = #near
  if f.more and #f.list <= size then
    local rest = call('LRANGE', q.key .. ':facet:' .. f.tenant, 0, size + 1 - #f.list + atHand)
    for i = 1, #rest do f.list[f.back + f.own + i] = rest[i] end
  end
end

-- The only message that a tenant gives, and what is at hand then.
local function first(f)
  local name = string.match(f.names, '^%d+')
  f.back, f.rest, f.popped = 0, name and string.sub(f.names, #name + 2) or '', 0
  if f.rest == '' and f.more then
    local some = call('LRANGE', q.key .. ':facet:' .. f.tenant, 0, atHand)
    f.popped = math.min(#some, atHand)
    f.rest, f.more = table.concat(some, ' ', name and 1 or 2, f.popped), #some > f.popped
    name = name or some[1]
  end
  f.stays = f.rest ~= '' or f.more
  return name
end

-- Read: play the ring's turns on what the facets show, one message a turn.
local simple = q.free and q.hollow == 0
local round, turns, names, played = {}, {}, {}, nil
if simple then
  round = call('LRANGE', q.key .. ':ring', 0, max - 1)
  local line, hands = {}, gather('HMGET', q.key .. ':hand', round)
  for i = 1, #round do
    local f = {tenant = round[i], took = 0}
    f.leased, f.inside, f.names, f.more = read(hands[i])
    line[i] = f
  end
  local single = #round == max and q.plain and q.back == 0
  local quota, head, tail = math.ceil(max / math.max(#round, 1)), 1, #round
  for i = 1, single and max or 0 do turns[i], names[i] = line[i], first(line[i]) end
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


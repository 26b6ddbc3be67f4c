-- The first part of a lease: read, and write nothing but who may enter by now. The
-- ring's turns are played on what the facets show.
-- ARGV  3 uid  4 max  5 bytes  6 ms; 0: at most once  7 token  8 consumer  9 lanes
if not lane() then return 'lane_missing' end
local q = queue(ARGV[3])
if not q then return 'not_found' end
local max, bytes, ms, token = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
if q.tracked and ms == 0 then return 'fleeting' end
if q.paused then
  q.wanted = true
  save(q)
  keep()
  return {now, 0, due(), {}, {}}
end
if q.wake ~= '' then rouse(q) end

-- Of an ordered queue: whose the next heads are, and their names.
local function seeHeads(f, size)
  local list, keyed = call('ZRANGE', q.key .. ':heads:' .. f.tenant, 0, size), {}
  if q.tried == nil then q.tried = call('EXISTS', q.key .. ':tries') == 1 end
  f.whose, f.back = {}, q.tried and size + 1 or 0
  for i = 1, #list do
    local key = string.byte(list[i]) == 61
    f.whose[i] = key and f.tenant .. '\0' .. string.sub(list[i], 2) or f.tenant
    if key then keyed[#keyed + 1] = f.whose[i] end
  end
  local lines, at = gather('HMGET', q.key .. ':head', keyed), 0
  for i = 1, #list do
    if #f.whose[i] > #f.tenant then
      at = at + 1
      list[i] = string.match(lines[at], '^%d+')
    end
  end
  f.list = list
  if q.tracked then seePast(q, f, size) end
end

-- See at least the next size + 1 messages of a facet, if there are as many: what came
-- back first, it is older than the rest; of an ordered queue the heads of keys. Of the
-- facet's list so many more are seen that the hand can be filled again.
local function see(f, size)
  f.seen, f.list, f.back, f.own = size, {}, 0, 0
  if q.ordered then
    return seeHeads(f, size)
  end
  if q.back > 0 and q.tracked then
    return seeMixed(q, f, size)
  elseif q.back > 0 then
    f.list = call('ZRANGE', q.key .. ':back:' .. f.tenant, 0, size)
    f.back = #f.list
    if f.back > size then return end
  end
  local near = words(f.names)
  for i = 1, #near do f.list[f.back + i] = near[i] end
  f.own = #near
  local own = f.back + f.own
  if f.more and own <= size then
    local rest = call('LRANGE', q.key .. ':facet:' .. f.tenant, 0, size + 1 - own + atHand)
    if own == 0 then f.list = rest return end
    for i = 1, #rest do f.list[own + i] = rest[i] end
  end
end

-- Read: play the ring's turns on what the facets show, one message a turn.
local round, turns, names, planned, count = {}, {}, {}, 0, 0
local single, played

local function playRound(hands)
  local line, quota, head, tail = {}, math.ceil(max / math.max(#round, 1)), 1, #round
  for i = 1, #round do
    local leased, inside, near, more = read(hands[i])
    line[i] = {tenant = round[i], took = 0, leased = leased, inside = inside, names = near, more = more, list = false, seen = 0, back = 0, own = 0, gave = 0, stays = false}
  end
  while planned < max and head <= tail do
    local f = line[head]
    local took = f.took
    head = head + 1
    if not f.list then see(f, quota) elseif took == f.seen then see(f, took + max - planned) end
    took, planned = took + 1, planned + 1
    f.took, turns[planned], names[planned] = took, f, f.list[took]
    if f.list[took + 1] then tail = tail + 1 line[tail] = f end
  end
end

if q.free and q.hollow == 0 then
  round = call('LRANGE', q.key .. ':ring', 0, max - 1)
  local hands = gather('HMGET', q.key .. ':hand', round)
  if ms > 0 and #round == max and q.plain and q.back == 0 then
    single = planSingle(q, round, hands)
    names, planned = single.names, max
  else
    playRound(hands)
  end
else
  played = playTurns(q, max, max, see)
  turns, names, planned = played.turns, played.names, #played.turns
end

-- Read: their operations. Those that were cancelled are dropped, and not given.
local ops = q.tracked and tracking().plan(q, names, planned, tonumber(ARGV[9]))
if ops and ops.any and single then
  single, names, planned = nil, {}, 0
  playRound(gather('HMGET', q.key .. ':hand', round))
  ops = tracking().plan(q, names, planned, tonumber(ARGV[9]))
end

-- Read: the bodies in that order, as far as the bytes reach.
local prefix = {[0] = 1, 18, 25, 17} -- bytes before the event, by the first of them
local bodies, size, skipped = {}, 0, 0
count = planned
for i = 1, planned, 50 do
  local some = call('HMGET', T .. ':body', unpack(names, i, math.min(i + 49, planned)))
  for j = 1, #some do
    if ops and ops.gone[i + j - 1] then skipped = skipped + 1
    elseif some[j] then
      local first = string.byte(some[j])
      size = size + #some[j] - prefix[first]
      if first == 1 and string.byte(some[j], 18) == 3 then size = size - 16 end
    end
    if size > bytes and i + j - skipped > 2 then count = i + j - 2 break end
    bodies[i + j - 1] = some[j]
  end
  if count < planned then break end
end
if played and count < planned then
  played = playTurns(q, max, count, see)
  turns, names = played.turns, played.names
end


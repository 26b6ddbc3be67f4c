-- The last part of a publish: write. Nothing here can fail.
if #refused == 2 * nR then return {now, n0, -1, refused, odd} end

local function rotate(name, ended)
  local newer, older = T .. ':' .. name .. '0', T .. ':' .. name .. '1'
  call('UNLINK', older)
  if ended == 2 then call('UNLINK', newer) end
  if call('EXISTS', newer) == 1 then call('RENAME', newer, older) end
end
if dedupeOver > 0 then rotate('dedupe', dedupeOver) L.dedupe = now + window end
if keyOver > 0 then rotate('key', keyOver) L.keying = now + keyWindow end
local latest = {}
for key in pairs(chained) do
  latest[#latest + 1] = keys[key]
  latest[#latest + 1] = last[key]
end
L.published = L.published + fresh

-- What is remembered of delayed events, for longer than the rest, and they themselves.
for i = 1, #kept do
  local k = kept[i]
  if k.digest then
    call('HSET', T .. ':long', k.digest, k.value)
    L.longs = L.longs + call('ZADD', T .. ':longs', 'GT', k.at, k.digest)
  else
    call('HSET', T .. ':held', k.name, k.record)
    call('ZADD', T .. ':alias:' .. k.alias, k.name, k.name)
    plan(k.due, held(k.name))
  end
end
for i = 1, #taken do unheld(taken[i].name, taken[i].alias) end
if L.longs > 0 then
  local over = call('ZRANGEBYSCORE', T .. ':longs', '-inf', now, 'LIMIT', 0, 100)
  bulk('HDEL', T .. ':long', over)
  bulk('ZREM', T .. ':longs', over)
  L.longs = L.longs - #over
end
if n >= n0 then L.n = n end
bulk('HSET', T .. ':body', stored)
bulk('HSET', T .. ':holders', holders)
bulk('HSET', T .. ':key0', latest)
bulk('HSET', T .. ':dedupe0', remember)

-- The messages of a facet wait. Returns the first of them that may be leased. Of a tenant
-- that is in the ring, or enters it as it is, some are at hand.
local function append(q, f, hands)
  wait(q, f.tenant, #f)
  if not q.ordered then
    local there = f.inside and f.hand or nil
    if not there and q.plain and q.parked == 0 then there = f.hand and string.sub(f.hand, 1, -2) .. '@' or '0@' end
    local after = queueUp(q, f.tenant, f, there)
    if after and after ~= f.hand then hands[#hands + 1], hands[#hands + 2] = f.tenant, after end
    return f[1]
  end
  local first
  for j = 1, #f do
    if lineUp(q, f[j], f.whose[j]) then first = first or f[j] end
  end
  return first
end

-- The oldest of a facet go, at most one for each that came.
local exits = {}
local function cut(q, f)
  local over = math.min(f.waiting + #f - q.length, #f)
  if over <= 0 then return end
  local gone, back = popOldest(q, f.tenant, over)
  if back > 0 then bulk('HDEL', q.key .. ':tries', gone) end
  if q.tracked then tracking().cancel(q, gone) end
  release(gone)
  settled(q, gone, lanes)
  wait(q, f.tenant, -#gone)
  tally(q, 'dropped', #gone)
  for i = 1, #gone do exits[#exits + 1], exits[#exits + 2] = q.u, gone[i] end
  L.dropped = L.dropped + #gone
end

-- Tenants enter the ring in the order of their first messages that may be leased. Who is
-- in the ring is listed already, unless it is there with nothing waiting.
for i = 1, nQ do
  local q, newly, outside, later, hands = queues[i], {}, {}, {}, {}
  for _, f in ipairs(q.touched) do
    local first = append(q, f, hands)
    if not f.inside or q.hollow > 0 or q.ordered then outside[#outside + 1] = f.tenant end
    if f.inside then
      if first then fill(q, f.tenant) end
    elseif q.plain and q.parked == 0 then newly[#newly + 1] = f.tenant
    elseif first then later[#later + 1] = {tonumber(first), f.tenant} end
  end
  if q.ordered then table.sort(later, function(a, b) return a[1] < b[1] end) end
  bulk('HSET', q.key .. ':hand', hands)
  for j = 1, #later do admit(q, later[j][2]) end
  if #q.touched > 0 then
    ring(q, newly)
    enlist(q, outside)
  end
end
for i = 1, #minutes do age(minutes[i][1], minutes[i][2], minutes[i][3]) end
for i = 1, nQ do
  local q = queues[i]
  for _, f in ipairs(q.touched) do
    if q.oldest and f.waiting then cut(q, f) end
  end
  if q.tracked and #q.touched > 0 then tracking().flush(q) end
  if q.changed or #q.touched > 0 then save(q) end
end
local disabled = pushAll and pushAll()
keep()
local names, counts, records = {}, {}, {}
for topic, count in pairs(topics) do names[#names + 1], counts[#counts + 1] = ARGV[aP + topic], count end
local before = gather('HMGET', T .. ':topics', names)
for i = 1, #names do
  local had = tonumber(string.match(before[i] or '0', '^%d+'))
  records[#records + 1], records[#records + 2] = names[i], str(had + counts[i]) .. ' ' .. str(now)
end
bulk('HSET', T .. ':topics', records)
if tell then tell() end
return {now, n0, due(), refused, odd, exits, disabled}

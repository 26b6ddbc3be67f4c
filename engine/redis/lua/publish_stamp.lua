-- The second part of a publish: decide. A request that is not stale gets stamps
-- for its events; what is to be written gathers in tables.
local n0 = math.max(L.n + 1, (now - 1735689600000) * 128)
local edge, span = 0, 0 -- the n at which the next minute begins; the minute
local n = n0 - 1
local exact = (now - 1735689600000 + 1) * 128 -- below it the seq tells the time
local refused, odd, stored, holders, remember, chained, topics, seen = {}, {}, {}, {}, {}, {}, {}, {}
local minutes, kept, taken, fresh, bodies = {}, {}, {}, 0, 0

local function turnMinute()
  for i = 1, nQ do
    if queues[i].fresh > 0 then minutes[#minutes + 1] = {queues[i], span, queues[i].fresh} end
    queues[i].fresh = 0
  end
  span = minute(n)
  edge = ((span + 1) * 60000 - 1735689600000) * 128
end

local function stamp(e, kind, topic, key, digest)
  n, fresh = n + 1, fresh + 1
  if n >= edge then turnMinute() end
  local seq, prev, sinks = n * lanes + own, 0, class[kind]
  local name, holding = str(seq), #sinks
  if key > 0 then
    prev = tonumber(last[key]) or 0
    last[key], chained[key] = name, true
    if prev > 0 then
      odd[#odd + 1] = e
      odd[#odd + 1] = prev
    end
  end
  for i = 1, holding do
    local f = sinks[i]
    local q, size = f.q, f.size + 1
    if size == 1 then q.touched[#q.touched + 1] = f end
    f[size], f.size = name, size
    if q.ordered then
      f.whose = f.whose or {}
      f.whose[size] = key > 0 and keys[key] or f.tenant
    end
    q.fresh = q.fresh + 1
  end
  if open then n = open(e, n, name) end
  if push then holding = holding + push(e, kind, name) end
  if holding > 0 then
    stored[bodies + 1] = name
    stored[bodies + 2] = prev == 0 and n < exact and ARGV[body0 + e] or struct.pack('<Bdd', 1, prev, now) .. ARGV[body0 + e]
    bodies = bodies + 2
    if holding > 1 then
      holders[#holders + 1] = name
      holders[#holders + 1] = holding
    end
  else
    L.unrouted = L.unrouted + 1
  end
  if digest > 0 then
    local value = struct.pack('<ddI4', seq, prev, holding)
    seen[given[digest]] = value
    remember[#remember + 1] = given[digest]
    remember[#remember + 1] = value
  end
  topics[topic] = (topics[topic] or 0) + 1
  if show then show(e, seq, prev) end
end

-- The event waits whole until it is due.
local function hold(e, x, digest)
  n = n + 1
  local until_, mark = now + x.delay, digest > 0 and given[digest] or ''
  local record = struct.pack('<dI2c0I2c0', until_, #x.alias, x.alias, #mark, mark) .. ARGV[body0 + e]
  kept[#kept + 1] = {name = str(n * lanes + own), record = record, due = until_, alias = x.alias}
  if digest > 0 then
    local value = struct.pack('<ddI4d', 0, 0, 0, until_)
    seen[mark] = value
    kept[#kept + 1] = {digest = mark, value = value, at = until_ + window}
  end
  odd[#odd + 1] = -e
  odd[#odd + 1] = 'H' .. struct.pack('<d', until_)
end

-- The event was held: this commit takes it out, or another has.
local function unhold(e, x, kind, topic, key)
  local name = str(x.from)
  local record = holds[name]
  if not record then
    odd[#odd + 1] = -e
    odd[#odd + 1] = 'G'
    return
  end
  local _, alias = struct.unpack('<dI2c0', record)
  holds[name] = nil
  taken[#taken + 1] = {name = name, alias = alias}
  stamp(e, kind, topic, key, 0)
end

-- The uid of a queue that has no room for a request's events, if there is one.
local function full(first, last, d)
  local more, again = {}, {}
  for j = first, last do
    local kind, _, _, remembered = struct.unpack('<I4I4I4I4', events, 16 * j - 15)
    local x, stored = extra[j], true
    if remembered > 0 then d = d + 1 end
    if x and x.from > 0 then
      local name = str(x.from)
      stored = holds[name] and not again[name]
      again[name] = true
    elseif remembered > 0 then
      stored = not (seen[given[d]] or known[d] or again[given[d]])
      again[given[d]] = true
    end
    for i = 1, stored and not (x and x.delay > 0) and #class[kind] or 0 do
      local f = class[kind][i]
      more[f] = (more[f] or 0) + 1
      if f.waiting and not f.q.oldest and f.waiting + #f + more[f] > f.q.length then return f.q.u end
    end
  end
end

-- The events of one request, which is not refused.
local function commit(first, last, d)
  for j = first, last do
    local kind, topic, key, remembered = struct.unpack('<I4I4I4I4', events, 16 * j - 15)
    local x, before = extra[j], nil
    if remembered > 0 then
      d = d + 1
      before = seen[given[d]] or known[d]
    end
    if x and x.from > 0 then
      unhold(j, x, kind, topic, key)
    elseif before then
      L.duplicates = L.duplicates + 1
      odd[#odd + 1] = -j
      odd[#odd + 1] = before
    elseif x then
      hold(j, x, remembered > 0 and d or 0)
    else
      stamp(j, kind, topic, key, remembered > 0 and d or 0)
    end
  end
end

-- Requests that are alike, of so many events and digests each, are told once.
local e, r, d, request = 1, 1, 0, 0
while r <= #requests do
  local wanted, times, count, ids, uses, there, bounded = 0, 0, 0, 0, 0, true, false
  wanted, times, count, ids, uses, r = struct.unpack('<dI4I4I4I4', requests, r)
  for _ = 1, uses do
    local q
    q, r = struct.unpack('<I4', requests, r)
    there = there and queues[q].key ~= nil
    bounded = bounded or there and queues[q].length > 0
  end
  for _ = 1, times do
    request = request + 1
    local short = bounded and full(e, e + count - 1, d)
    if not there or wanted < L.version or short then
      refused[#refused + 1] = request
      refused[#refused + 1] = there and wanted >= L.version and short or L.version
    else
      L.version = wanted
      commit(e, e + count - 1, d)
    end
    e, d = e + count, d + ids
  end
end
turnMinute()


-- The second part of a publish: decide. A request that is not stale gets stamps
-- for its events; what is to be written gathers in tables.
local n = tonumber(m[5]) or 0
local n0 = math.max(n + 1, (now - 1735689600000) * 128)
local edge, span = 0, 0 -- the n at which the next minute begins; the minute
n = n0 - 1
local plain = struct.pack('<dd', 0, now)
local answers, odd, stored, holders, remember, chained, topics, seen = {}, {}, {}, {}, {}, {}, {}, {}
local minutes = {}

local function turnMinute()
  for i = 1, nQ do
    if queues[i].fresh > 0 then minutes[#minutes + 1] = {queues[i], span, queues[i].fresh} end
    queues[i].fresh = 0
  end
  span = minute(n)
  edge = ((span + 1) * 60000 - 1735689600000) * 128
end

local function stamp(e, kind, topic, key, digest)
  n = n + 1
  if n >= edge then turnMinute() end
  local seq, prev, sinks = n * lanes + own, 0, class[kind]
  local name = str(seq)
  if key > 0 then
    prev = tonumber(last[key]) or 0
    last[key], chained[key] = name, true
    if prev > 0 then
      odd[#odd + 1] = e
      odd[#odd + 1] = prev
    end
  end
  for i = 1, #sinks do
    local f = sinks[i]
    local q = f.q
    if #f == 0 then q.touched[#q.touched + 1] = f end
    f[#f + 1] = name
    q.fresh = q.fresh + 1
  end
  if #sinks > 0 then
    stored[#stored + 1] = name
    stored[#stored + 1] = (prev == 0 and plain or struct.pack('<dd', prev, now)) .. ARGV[body0 + e]
    if #sinks > 1 then
      holders[#holders + 1] = name
      holders[#holders + 1] = #sinks
    end
  else
    unrouted = unrouted + 1
  end
  if digest > 0 then
    local value = struct.pack('<ddI4', seq, prev, #sinks)
    seen[given[digest]] = value
    remember[#remember + 1] = given[digest]
    remember[#remember + 1] = value
  end
  topics[topic] = (topics[topic] or 0) + 1
end

local e, r, d = 1, 1, 0
for i = 1, nR do
  local wanted, count, uses, ok = 0, 0, 0, true
  wanted, count, uses, r = struct.unpack('<dI4I4', requests, r)
  for _ = 1, uses do
    local q
    q, r = struct.unpack('<I4', requests, r)
    ok = ok and queues[q].key ~= nil
  end
  ok = ok and wanted >= version
  answers[i] = ok and -1 or version
  if ok then version = wanted end
  for j = e, e + count - 1 do
    local kind, topic, key, remembered = struct.unpack('<I4I4I4I4', events, 16 * j - 15)
    if remembered > 0 then d = d + 1 end
    if ok then
      local first = remembered > 0 and (seen[given[d]] or known[d])
      if first then
        duplicates = duplicates + 1
        odd[#odd + 1] = -j
        odd[#odd + 1] = first
      else
        stamp(j, kind, topic, key, remembered > 0 and d or 0)
      end
    end
  end
  e = e + count
end
turnMinute()


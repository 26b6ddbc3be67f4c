-- Commit the requests of one lane that were gathered into this call, each as a
-- whole or not at all.
-- ARGV  3 window ms  4 key window ms  5 lanes  6 lane  7 counts of what follows, then
--       queues: uids · facets: tenants · keys: tenant, NUL, key · topics: names ·
--       queue of each facet · facets of each class of events · requests · events ·
--       digests, 16 bytes each · one body per event
-- Returns now, the first event's n, ms to the next due entry, per request -1 or
-- the version that refuses it, and what is not plain: event, its prev; or the
-- negative event and the first stamp of its digest.
local m = lane('n', 'v', 'published', 'duplicates', 'unrouted', 'dedupe', 'keying')
if not m then return 'lane_missing' end
local window, keyWindow, lanes, own = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local version, published, duplicates, unrouted = tonumber(m[6]) or 0, tonumber(m[7]) or 0, tonumber(m[8]) or 0, tonumber(m[9]) or 0
local nQ, nF, nK, nP, nC, nR, nE, nD = struct.unpack('<I4I4I4I4I4I4I4I4', ARGV[7])
local aF, aK, aP = 7 + nQ, 7 + nQ + nF, 7 + nQ + nF + nK
local aX = aP + nP -- the packed arguments come after the names
local facetQueues, classes, requests, events, digests = ARGV[aX + 1], ARGV[aX + 2], ARGV[aX + 3], ARGV[aX + 4], ARGV[aX + 5]
local body0 = aX + 5

-- Read: queues, facets with their places in the rings, the last seqs of keys,
-- known digests. A generation that is over is read as the older one.
local queues, facets, class = {}, {}, {}
for i = 1, nQ do
  queues[i] = queue(ARGV[7 + i]) or {}
  queues[i].tenants, queues[i].facets, queues[i].fresh = {}, {}, 0
end
for i = 1, nF do
  local q = queues[struct.unpack('<I4', facetQueues, 4 * i - 3)]
  facets[i] = {q = q}
  q.tenants[#q.tenants + 1], q.facets[#q.facets + 1] = ARGV[aF + i], facets[i]
end
for i = 1, nQ do
  local q = queues[i]
  q.ring = q.key and gather('SMISMEMBER', q.key .. ':in', q.tenants)
end
local at = 1
for i = 1, nC do
  local count
  count, at = struct.unpack('<I4', classes, at)
  class[i] = {}
  for j = 1, count do
    local f
    f, at = struct.unpack('<I4', classes, at)
    class[i][j] = facets[f]
  end
end

-- Look fields up in the newer, then in the older generation of a hash.
-- over counts the generations that have ended: of two, nothing is left.
local function recall(name, over, fields)
  if over == 2 then return {} end
  local found = gather('HMGET', T .. ':' .. name .. '0', fields)
  if over == 1 then return found end
  local missing, place = {}, {}
  for i = 1, #fields do
    if not found[i] then missing[#missing + 1], place[#place + 1] = fields[i], i end
  end
  local older = gather('HMGET', T .. ':' .. name .. '1', missing)
  for i = 1, #missing do found[place[i]] = older[i] end
  return found
end
local dedupeAt, keyAt = tonumber(m[10]) or 0, tonumber(m[11]) or 0
local function over(at, span) return now >= at + span and 2 or now >= at and 1 or 0 end
local dedupeOver, keyOver = over(dedupeAt, window), over(keyAt, keyWindow)
local given, keys = {}, {}
for i = 1, nD do given[i] = string.sub(digests, 16 * i - 15, 16 * i) end
for i = 1, nK do keys[i] = ARGV[aK + i] end
local known, last = recall('dedupe', dedupeOver, given), recall('key', keyOver, keys)

-- Decide: stamp the events of every request that is not stale.
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
    f[#f + 1] = name
    f.q.fresh = f.q.fresh + 1
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

-- Write. Nothing below can fail.
local refused = true
for i = 1, nR do refused = refused and answers[i] >= 0 end
if refused then return {now, n0, -1, answers, odd} end

local function rotate(name, ended)
  local newer, older = T .. ':' .. name .. '0', T .. ':' .. name .. '1'
  call('UNLINK', older)
  if ended == 2 then call('UNLINK', newer) end
  if call('EXISTS', newer) == 1 then call('RENAME', newer, older) end
end
if dedupeOver > 0 then rotate('dedupe', dedupeOver) dedupeAt = now + window end
if keyOver > 0 then rotate('key', keyOver) keyAt = now + keyWindow end
local latest = {}
for key in pairs(chained) do
  latest[#latest + 1] = keys[key]
  latest[#latest + 1] = last[key]
end
published = published + n - n0 + 1
keep('n', str(n >= n0 and n or (tonumber(m[5]) or 0)), 'v', str(version), 'published', str(published), 'duplicates', str(duplicates),
  'unrouted', str(unrouted), 'dedupe', str(dedupeAt), 'keying', str(keyAt))
bulk('HSET', T .. ':body', stored)
bulk('HSET', T .. ':holders', holders)
bulk('HSET', T .. ':key0', latest)
bulk('HSET', T .. ':dedupe0', remember)
for i = 1, nQ do
  local q, fresh, count = queues[i], {}, 0
  for j = 1, #q.facets do
    local f = q.facets[j]
    if #f > 0 then
      bulk('RPUSH', q.key .. ':facet:' .. q.tenants[j], f)
      count = count + #f
      if q.ring[j] == 0 then fresh[#fresh + 1] = q.tenants[j] end
    end
  end
  if count > 0 then
    q.ready = q.ready + count
    enter(q, fresh)
    call('HSET', q.key, 'ready', str(q.ready), 'wanted', q.wanted and '1' or '0')
  end
end
for i = 1, #minutes do age(minutes[i][1], minutes[i][2], minutes[i][3]) end
local names, counts, records = {}, {}, {}
for topic, count in pairs(topics) do names[#names + 1], counts[#counts + 1] = ARGV[aP + topic], count end
local before = gather('HMGET', T .. ':topics', names)
for i = 1, #names do
  local had = tonumber(string.match(before[i] or '0', '^%d+'))
  records[#records + 1], records[#records + 2] = names[i], str(had + counts[i]) .. ' ' .. str(now)
end
bulk('HSET', T .. ':topics', records)
return {now, n0, due(), answers, odd}

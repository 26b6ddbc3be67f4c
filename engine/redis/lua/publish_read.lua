-- The first part of a publish, which commits the requests of one lane that were
-- gathered into this call, each as a whole or not at all: read, and write nothing.
-- ARGV  3 window ms  4 key window ms  5 lanes  6 lane  7 counts of what follows, then
--       queues: uids · facets: tenants · keys: tenant, NUL, key · topics: names · openings ·
--       queue of each facet · facets of each class of events · requests · events ·
--       digests, 16 bytes each · what few events have · of each event a zero byte, or 3 and a secret, and the body
-- Returns now, the first event's n, ms to the next due entry, of each refused request its
-- number and the version that refuses it or the uid of the queue that is full, and what is not plain:
-- event, its prev; or the negative event and the first stamp of its digest, H and the
-- time it is held until, or G if the held event is gone. At last uid and name of each
-- message that went past a queue's length, and the uids of subscriptions that are disabled.
local m = lane('live', 'asked')
if not m then return 'lane_missing' end
local window, keyWindow, lanes, own = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local nQ, nF, nK, nP, nC, nR, nE, nD, nS, nO, nU, nB = struct.unpack('<I4I4I4I4I4I4I4I4I4I4I4I4', ARGV[7])
local aF, aK, aP = 7 + nQ, 7 + nQ + nF, 7 + nQ + nF + nK
local aO = aP + nP + nS -- what opens operations
local aX = nO > 0 and aO + 1 + nO + nU + nB or aO -- the packed arguments come after the names
local facetQueues, classes, requests, events, digests = ARGV[aX + 1], ARGV[aX + 2], ARGV[aX + 3], ARGV[aX + 4], ARGV[aX + 5]
local body0 = nS > 0 and aX + 7 or aX + 6
local push, pushAll -- unless no event goes to a subscription
local open -- unless no event goes to a tracked queue

-- Few events are to be held (delay, and whose id), or were (from).
local extra, from, holds = {}, {}, {}
local at = 1
while at <= #ARGV[aX + 6] do
  local event, x = 0, {}
  event, x.delay, x.from, x.alias, at = struct.unpack('<I4ddI2c0', ARGV[aX + 6], at)
  extra[event] = x
  if x.from > 0 then from[#from + 1] = str(x.from) end
end
local found = gather('HMGET', T .. ':held', from)
for i = 1, #from do holds[from[i]] = found[i] or nil end

-- Read: queues, facets with their places in the rings, the last seqs of keys,
-- known digests. A generation that is over is read as the older one.
local queues, facets, class = {}, {}, {}
for i = 1, nQ do
  queues[i] = queue(ARGV[7 + i]) or {}
  queues[i].tenants, queues[i].facets, queues[i].touched, queues[i].fresh = {}, {}, {}, 0
end
for i = 1, nF do
  local q = queues[struct.unpack('<I4', facetQueues, 4 * i - 3)]
  facets[i] = {q = q, tenant = ARGV[aF + i], hand = false, inside = false, waiting = false, whose = false, size = 0}
  q.tenants[#q.tenants + 1], q.facets[#q.facets + 1] = ARGV[aF + i], facets[i]
end
for i = 1, nQ do
  local q = queues[i]
  local hands = q.key and gather('HMGET', q.key .. ':hand', q.tenants) or {}
  for j = 1, #hands do
    local f, there = q.facets[j], hands[j]
    f.hand, f.inside = there, there and string.find(there, '@', 1, true) ~= nil
    if q.length > 0 then q.facets[j].waiting = waiting(q, q.facets[j].tenant) end
  end
end
at = 1
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
local function over(at, span) return now >= at + span and 2 or now >= at and 1 or 0 end
local dedupeOver, keyOver = over(L.dedupe, window), over(L.keying, keyWindow)
local given, keys = {}, {}
for i = 1, nD do given[i] = string.sub(digests, 16 * i - 15, 16 * i) end
for i = 1, nK do keys[i] = ARGV[aK + i] end
local known, last = recall('dedupe', dedupeOver, given), recall('key', keyOver, keys)

-- Ids of delayed events are remembered apart, for longer.
if L.longs > 0 and nD > 0 then
  local long = gather('HMGET', T .. ':long', given)
  for i = 1, nD do known[i] = known[i] or long[i] end
end


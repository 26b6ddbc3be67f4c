-- Put one event into a tracked queue, with an operation.
-- ARGV  3 uid  4 lanes  5 lane  6 tenant  7 tenant, with NUL and key if there is one  8 the body, with the secret
--       9 delay in ms  10 digest that must not be open twice, or nothing
--       11 what the operation is opened with  12 its payload if that is long  13 its subject
-- Returns number, status and record of the operation, 1 if it was open already, ms to the next due
-- entry, and uid and name of what went past the queue's length; 'full' if there is no room.
if not lane() then return 'lane_missing' end
local q = queue(ARGV[3])
if not q then return 'not_found' end
if not q.tracked then return 'not_tracked' end
local lanes, own, tenant, who, delay, digest = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7], tonumber(ARGV[9]), ARGV[10]
if q.ordered and delay > 0 then return 'no_delay' end

local there = digest ~= '' and call('HGET', T .. ':od', digest)
if there then
  local o = view({there})[1]
  keep()
  return {there, o.status, o.record, 1, due(), {}}
end
if q.length > 0 and not q.oldest and waiting(q, tenant) >= q.length then return 'full' end

local n, exits = math.max(L.n + 1, (now - 1735689600000) * 128), {}
local name = str(n * lanes + own)
L.n, L.published = n, L.published + 1
local exact = n < (now - 1735689600000 + 1) * 128 -- the name tells the time
call('HSET', T .. ':body', name, exact and ARGV[8] or struct.pack('<Bdd', 1, 0, now) .. ARGV[8])
age(q, minute(n), 1)

-- The message waits, the last of its tenant.
local function append()
  local leasable = true
  wait(q, tenant, 1)
  if q.ordered then leasable = lineUp(q, name, who) else
    local hand = call('HGET', q.key .. ':hand', tenant)
    if not (hand and string.find(hand, '@', 1, true)) then hand = nil end
    local after = queueUp(q, tenant, {name}, hand)
    if after ~= hand then call('HSET', q.key .. ':hand', tenant, after) end
  end
  if leasable then admit(q, tenant) end
end

-- The oldest of the tenant goes.
local function cut()
  local gone = popOldest(q, tenant, 1)
  bulk('HDEL', q.key .. ':tries', gone)
  tracking().cancel(q, gone)
  release(gone)
  settled(q, gone, lanes)
  wait(q, tenant, -#gone)
  tally(q, 'dropped', #gone)
  L.dropped = L.dropped + #gone
  for i = 1, #gone do exits[#exits + 1], exits[#exits + 2] = q.u, gone[i] end
end

tracking().open(q, name, name, now + delay, ARGV[11], ARGV[12], ARGV[13], exact and delay == 0)
if delay > 0 then tracking().note(q, name) end -- its body does not tell from when it can run
if digest ~= '' then
  tracking().note(q, name).digest = digest
  call('HSET', T .. ':od', digest, name)
end
enlist(q, {tenant})
if delay > 0 then
  call('HSET', q.key .. ':delayed', name, who)
  call('ZADD', q.key .. ':late:' .. tenant, name, name)
  plan(now + delay, delayed(q.u, name))
else
  append()
  if q.oldest and q.length > 0 and waiting(q, tenant) > q.length then cut() end
end
tracking().flush(q)
save(q)
keep()
return {name, 'Q', '', 0, due(), exits}

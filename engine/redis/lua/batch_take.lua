-- Give ready batches to a node, by the ring, one of a subscription a turn.
-- ARGV  3 max  4 bytes  5 ms that they are pending  6 token  7 node
-- Returns 1 if the ring is not empty, ms to the next due entry, and of each batch: uid,
-- name, attempt, time it was opened, format, names of its events, their bodies, version of
-- its subscription's settings.
if not lane() then return 'lane_missing' end
local max, bytes, span, token, node = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7]
local given, size, looked, more = {}, 0, 0, 1

-- The subscription at the head of the ring gives its oldest batch. Returns false if that
-- is too large.
local function serve(s)
  local b = batch.get(s, call('ZRANGE', s.key .. ':ready', 0, 0)[1])
  size = size + b.bytes
  if size > bytes and #given > 0 then return false end
  call('LPOP', T .. ':turns')
  batch.leave(s, b)
  b.attempts, b.token, b.node, s.inside = b.attempts + 1, token, node, 0
  batch.come(s, b, 'P', now + span)
  batch.admit(s)
  local names = call('LRANGE', s.key .. ':events:' .. b.name, 0, -1)
  given[#given + 1] = {s.u, b.name, b.attempts, b.created, b.format, names, gather('HMGET', T .. ':body', names), s.version}
  return true
end

-- Who cannot be served at its turn leaves; looking at them is bounded.
while #given < max and looked < max + 1000 do
  local u = call('LINDEX', T .. ':turns', 0)
  if not u then more = 0 break end
  looked = looked + 1
  local s = batch.of(u)
  if not s or not batch.servable(s) then
    call('LPOP', T .. ':turns')
    if s then s.inside = 0 end
  elseif not serve(s) then
    break
  end
end
batch.saveAll()
if more == 1 then more = call('EXISTS', T .. ':turns') end
if more == 1 then keep() else keep('wanted', '1') end
return {more, due(), given}

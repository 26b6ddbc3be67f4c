-- Lease up to max messages of a queue, one tenant a turn.
-- ARGV  3 uid  4 max  5 bytes  6 ms  7 token
-- Returns now, tenants left in the ring, ms to the next due entry, the attempts
-- that are not the first (index, attempt), and seq, tenant, body of each message.
if not lane() then return 'lane_missing' end
local q = queue(ARGV[3])
if not q then return 'not_found' end
local max, bytes, token = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[7]

-- See at least the next count + 1 messages of a facet, if there are as many:
-- what came back first, it is older than the rest.
local function see(f, count)
  f.seen, f.list, f.back = count, {}, 0
  if q.back > 0 then
    f.list = call('ZRANGE', q.key .. ':back:' .. f.tenant, 0, count)
    f.back = #f.list
  end
  if f.back > count then return end
  local rest = call('LRANGE', q.key .. ':facet:' .. f.tenant, 0, count - f.back)
  if f.back == 0 then f.list = rest return end
  for i = 1, #rest do f.list[#f.list + 1] = rest[i] end
end

-- Read: play the ring's turns on what the facets show.
local ring = call('LRANGE', q.key .. ':ring', 0, max - 1)
local line, turns, seqs = {}, {}, {}
for i = 1, #ring do line[i] = {tenant = ring[i], took = 0} end
local quota, head, tail = math.ceil(max / math.max(#ring, 1)), 1, #ring
while #turns < max and head <= tail do
  local f = line[head]
  head = head + 1
  if not f.list then see(f, quota) elseif f.took == f.seen then see(f, f.took + max - #turns) end
  f.took = f.took + 1
  turns[#turns + 1], seqs[#seqs + 1] = f, f.list[f.took]
  if f.list[f.took + 1] then tail = tail + 1 line[tail] = f end
end

-- Read: the bodies in that order, as far as the bytes reach.
local bodies, size, count = {}, 0, #turns
for i = 1, #turns, 50 do
  local some = call('HMGET', T .. ':body', unpack(seqs, i, math.min(i + 49, #turns)))
  for j = 1, #some do
    size = size + #some[j] - 16
    if size > bytes and i + j > 2 then count = i + j - 2 break end
    bodies[i + j - 1] = some[j]
  end
  if count < #turns then break end
end

-- Write: the facets, and the ring: who was served goes to the tail, in the
-- order of their last turns, or leaves.
local served, last, returned, where, stay, leave = {}, {}, {}, {}, {}, {}
for i = 1, count do
  local f = turns[i]
  if not last[f] then served[#served + 1], f.took = f, 0 end
  f.took, last[f] = f.took + 1, i
  if f.took <= f.back then returned[#returned + 1], where[#where + 1] = seqs[i], i end
end
for i = 1, count do
  local f = turns[i]
  if last[f] == i then
    local list = f.list[f.took + 1] and stay or leave
    list[#list + 1] = f.tenant
  end
end
for i = 1, #served do
  local f = served[i]
  local old = math.min(f.took, f.back)
  if old > 0 then call('ZPOPMIN', q.key .. ':back:' .. f.tenant, old) end
  if f.took > old then call('LPOP', q.key .. ':facet:' .. f.tenant, f.took - old) end
end
local turned = #stay < #ring or #ring == max
for i = 1, #stay do turned = turned or stay[i] ~= ring[i] end
if turned and #served > 0 then
  call('LPOP', q.key .. ':ring', #served)
  bulk('RPUSH', q.key .. ':ring', stay)
  bulk('SREM', q.key .. ':in', leave)
end

-- Write: the leases, one record each, one group for all.
local deadline, tries, records, attempts, reply = now + tonumber(ARGV[6]), {}, {}, {}, {}
local before = gather('HMGET', q.key .. ':tries', returned)
for i = 1, #where do
  attempts[where[i]] = (tonumber(before[i]) or 0) + 1
  tries[#tries + 1], tries[#tries + 2] = where[i], attempts[where[i]]
end
local first = lease(deadline, token, 1)
for i = 1, count do
  local tenant = turns[i].tenant
  records[2 * i - 1] = seqs[i]
  records[2 * i] = (attempts[i] and lease(deadline, token, attempts[i]) or first) .. tenant
  reply[3 * i - 2], reply[3 * i - 1], reply[3 * i] = seqs[i], tenant, bodies[i]
end
if count > 0 then
  bulk('HSET', q.key .. ':leased', records)
  join(q, deadline, token, table.concat(seqs, ' ', 1, count), count)
end
local left = call('LLEN', q.key .. ':ring')
q.ready, q.back, q.wanted = q.ready - count, q.back - #returned, left == 0
save(q)
keep()
return {now, left, due(), tries, reply}

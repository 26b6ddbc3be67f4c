-- Lease up to max messages of a queue, one tenant a turn.
-- What is leased is planned already.
-- ARGV  6 ms
-- Returns now, tenants left in the ring, ms to the next due entry, the attempts
-- that are not the first (index, attempt), and seq, tenant, body of each message.
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

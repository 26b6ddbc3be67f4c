-- What lease, settle, extend and step share: the records of leases and the ways
-- out of one. A record is deadline (8 bytes), token (16), attempt (4), tenant.
local function lease(deadline, token, attempt) return struct.pack('<d', deadline) .. token .. struct.pack('<I4', attempt) end

local function leased(record)
  local deadline, token, attempt = struct.unpack('<dc16I4', record)
  return deadline, token, attempt, string.sub(record, 29)
end

-- The name of a lease group: one token, one deadline.
local function group(deadline, token) return token .. str(deadline) end

-- The messages (a text of seqs) join a lease group; it is due once for all.
local function join(q, deadline, token, seqs, count)
  local id = group(deadline, token)
  local there = call('HGET', q.key .. ':group', id)
  call('HSET', q.key .. ':group', id, there and there .. ' ' .. seqs or seqs)
  call('HINCRBY', q.key .. ':left', id, count)
  if not there then plan(deadline, member('L', q.u, id)) end
end

-- So many messages left each of these groups; an empty one is not due any more.
local function part(q, groups)
  for id, count in pairs(groups) do
    if call('HINCRBY', q.key .. ':left', id, -count) <= 0 then
      call('HDEL', q.key .. ':left', id)
      call('HDEL', q.key .. ':group', id)
      call('ZREM', T .. ':due', member('L', q.u, id))
    end
  end
end

-- A message waits in its facet again, before what never left it.
local function back(q, seq, tenant)
  call('ZADD', q.key .. ':back:' .. tenant, seq, seq)
  q.ready, q.back = q.ready + 1, q.back + 1
  if call('SISMEMBER', q.key .. ':in', tenant) == 0 then enter(q, {tenant}) end
end

-- A message is dead. Its body stays.
local function bury(q, seq, tenant, attempt, why, text, lanes)
  call('ZADD', q.key .. ':dead', seq, seq)
  call('HSET', q.key .. ':why', seq, why .. str(now) .. ' ' .. attempt .. ' ' .. tenant .. '\n' .. text)
  if attempt > 1 then call('HDEL', q.key .. ':tries', seq) end
  settled(q, {seq}, lanes)
  q.spent = q.spent + 1
end

-- A message whose attempt failed waits again, after a delay or at once, or is
-- dead (true) if it was the last one.
local function retry(q, seq, tenant, attempt, delay, text, lanes)
  if q.max > 0 and attempt >= q.max then
    bury(q, seq, tenant, attempt, 'a', text, lanes)
    return true
  end
  call('HSET', q.key .. ':tries', seq, attempt)
  if delay > 0 then
    call('HSET', q.key .. ':delayed', seq, tenant)
    plan(now + delay, delayed(q.u, seq))
  else
    back(q, seq, tenant)
  end
  return false
end

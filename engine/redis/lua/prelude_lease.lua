-- What lease, settle, extend and step share: the records of leases and the ways out of
-- one. A record is deadline (8 bytes), token (16), attempt (4), in a tracked queue the time
-- it was leased (8), and whose message it is.
local function lease(deadline, token, attempt, started)
  return struct.pack('<d', deadline) .. token .. struct.pack('<I4', attempt) .. (started and struct.pack('<d', started) or '')
end

local function leased(q, record)
  local deadline, token, attempt = struct.unpack('<dc16I4', record)
  if not q.tracked then return deadline, token, attempt, string.sub(record, 29) end
  return deadline, token, attempt, string.sub(record, 37), (struct.unpack('<d', record, 29))
end

-- The name of a lease group: one token, one deadline.
local function group(deadline, token) return token .. str(deadline) end

-- The messages (a text of names) join a lease group; it is due once for all. A consumer's
-- groups are listed in the order in which they came about.
local function join(q, deadline, token, names, size, consumer)
  local id = group(deadline, token)
  local there = call('HGET', q.key .. ':group', id)
  call('HSET', q.key .. ':group', id, there and there .. ' ' .. names or names)
  call('HINCRBY', q.key .. ':left', id, size)
  if there then return end
  plan(deadline, member('L', q.u, id))
  if consumer ~= '' then
    tally(q, 'named', 1)
    tally(q, 'ever', 1)
    call('HSET', q.key .. ':whose', id, consumer)
    call('ZADD', q.key .. ':by:' .. consumer, q.ever, id)
  end
end

-- Whose a lease group is, or nobody's.
local function whose(q, id) return q.named > 0 and call('HGET', q.key .. ':whose', id) or '' end

-- So many messages left each of these groups; an empty one is not due any more.
local function part(q, groups)
  for id, size in pairs(groups) do
    if call('HINCRBY', q.key .. ':left', id, str(-size)) <= 0 then
      call('HDEL', q.key .. ':left', id)
      call('HDEL', q.key .. ':group', id)
      call('ZREM', T .. ':due', member('L', q.u, id))
      local consumer = whose(q, id)
      if consumer ~= '' then
        tally(q, 'named', -1)
        call('HDEL', q.key .. ':whose', id)
        call('ZREM', q.key .. ':by:' .. consumer, id)
      end
    end
  end
end

-- The messages of a group that are still leased under it, in the order they joined, at
-- most so many: name, who, attempt of each. Also returns how many were looked at. One that
-- left the group and joined it again stands in it twice: the last time counts.
local function members(q, id, most)
  local names, found, last = {}, {}, {}
  for name in string.gmatch(call('HGET', q.key .. ':group', id) or '', '%d+') do
    names[#names + 1] = name
    last[name] = #names
  end
  local records = gather('HMGET', q.key .. ':leased', names)
  for i = 1, #names do
    if records[i] and #found < most and last[names[i]] == i then
      local deadline, token, attempt, who, started = leased(q, records[i])
      if group(deadline, token) == id then found[#found + 1] = {names[i], who, attempt, started} end
    end
  end
  if q.tracked then tracking().look(q, names) end
  return found, #names
end

-- A message waits in its facet again, before what never left it; in an ordered queue as
-- the head of its key, which it has been all the time.
local function back(q, name, who)
  local tenant = tenantOf(who)
  wait(q, tenant, 1)
  if q.ordered then
    ready(q, name, who)
  else
    call('ZADD', q.key .. ':back:' .. tenant, name, name)
    q.back = q.back + 1
  end
  admit(q, tenant)
end

-- A message is dead. Its body stays.
local function bury(q, name, who, attempt, why, text, lanes, started)
  if q.tracked then tracking().finish(q, name, 'E', attempt, started, text) end
  call('ZADD', q.key .. ':dead', name, name)
  call('ZADD', q.key .. ':lost:' .. tenantOf(who), name, name)
  call('HSET', q.key .. ':why', name, why .. struct.pack('<dI4I2', now, attempt, #who) .. who .. text)
  if attempt > 1 then call('HDEL', q.key .. ':tries', name) end
  if q.keep > 0 then plan(now + q.keep, ending(q.u, name)) end
  settled(q, {name}, lanes)
  q.spent = q.spent + 1
  pass(q, who)
end

-- A message whose operation is to be cancelled is gone instead.
local function cease(q, name, who, attempt, text, lanes, started)
  tracking().finish(q, name, 'C', attempt, started, text)
  if attempt > 1 then call('HDEL', q.key .. ':tries', name) end
  release({name})
  settled(q, {name}, lanes)
  pass(q, who)
  vacate(q, {tenantOf(who)})
  return 'c'
end

-- A message whose attempt failed waits again, after a delay or at once (l), is dead (a)
-- if it was the last one, or cancelled (c). ended says that its lease did: nobody named a delay.
local function retry(q, name, who, attempt, delay, text, lanes, ended, started)
  if q.tracked and q.notes[name] and q.notes[name].wish then return cease(q, name, who, attempt, text, lanes, started) end
  if q.max > 0 and attempt >= q.max then
    if not q.block then
      bury(q, name, who, attempt, 'a', text, lanes, started)
      return 'a'
    end
    if ended then delay = q.wait end
  end
  call('HSET', q.key .. ':tries', name, attempt)
  if q.tracked then tracking().again(q, name, attempt, started, text) end
  if delay > 0 then
    call('HSET', q.key .. ':delayed', name, who)
    call('ZADD', q.key .. ':late:' .. tenantOf(who), name, name)
    plan(now + delay, delayed(q.u, name))
  else
    back(q, name, who)
  end
  return 'l'
end

-- A lease of a group has ended without a settlement. Returns what became of the message.
local function lapse(q, f, lanes)
  local tenant = tenantOf(f[2])
  call('HDEL', q.key .. ':leased', f[1])
  land(q, tenant)
  local left = retry(q, f[1], f[2], f[3], 0, 'the lease ended', lanes, true, f[4])
  readmit(q, tenant)
  return left
end

-- A message is not delayed any more.
local function undelay(q, name, who)
  call('HDEL', q.key .. ':delayed', name)
  call('ZREM', q.key .. ':late:' .. tenantOf(who), name)
end

-- Whose a dead letter is.
local function deadOf(record)
  local size = struct.unpack('<I2', record, 14)
  return string.sub(record, 16, 15 + size)
end

-- A dead letter is dead no more.
local function undead(q, name, who)
  call('ZREM', q.key .. ':dead', name)
  call('ZREM', q.key .. ':lost:' .. tenantOf(who), name)
  call('HDEL', q.key .. ':why', name)
  call('ZREM', T .. ':due', ending(q.u, name))
end

-- What the scripts share that move tenants of a queue: into the ring and out of it.
-- Who has something leasable is in the ring or parked: parked are those at weight 0 or
-- at their limit, by name. Who has nothing leasable any more but was in the ring (a purge)
-- is hollow until its turn finds it so. Whoever holds anything or has settings is listed
-- in `tenants`.
-- In an ordered queue a message goes by its tenant, or by tenant, NUL, key if it has a key.

local function tenantOf(who)
  local at = string.find(who, '\0', 1, true)
  return at and string.sub(who, 1, at - 1) or who
end

-- How many messages a tenant has a turn, and may have leased (0: any number).
local function allowed(q, tenant)
  local own = q.special > 0 and call('HGET', q.key .. ':tenant', tenant)
  if not own then return 1, q.limit end
  local weight, limit = string.match(own, '^(%d+) (%-?%d+)$')
  limit = tonumber(limit)
  return tonumber(weight), limit < 0 and q.limit or limit
end

-- A tenant's hand: how many of its messages are leased; whether it is in the ring, @, or
-- not; if it is, the names that it gives next, which then are in no list, each after a
-- space; and + if its facet holds more. Who has nothing leased and is not in the ring has none.
local atHand = 8

local function read(hand)
  if not hand then return 0, false, '', false end
  local leased, place, names, more = string.match(hand, '^(%d+)([@.])([ %d]*)(%+?)$')
  return tonumber(leased), place == '@', names, more == '+'
end

local function hand(leased, inside, names, more) return str(leased) .. (inside and '@' or '.') .. names .. (more and '+' or '') end

local function handOf(q, tenant) return read(call('HGET', q.key .. ':hand', tenant)) end

-- Names as a hand holds them, and as a list.
local function listed(list, from, to)
  if from >= to then return from == to and ' ' .. list[from] or '' end
  return ' ' .. table.concat(list, ' ', from, to)
end

local function words(names)
  local list, size = {}, 0
  for name in string.gmatch(names, '%d+') do
    size = size + 1
    list[size] = name
  end
  return list
end

-- Messages that never were leased join the end of a facet: at the hand of a tenant in the
-- ring, as long as it is short and the facet's list empty. Returns the hand then.
local function queueUp(q, tenant, new, hand)
  local near, size = 0, #new
  if hand and string.byte(hand, #hand) ~= 43 then
    near = math.max(0, math.min(size, floor((20 * atHand - #hand) / (#new[1] + 1))))
    hand = hand .. listed(new, 1, near) .. (near < size and '+' or '')
  end
  for i = near + 1, size, 1000 do call('RPUSH', q.key .. ':facet:' .. tenant, unpack(new, i, math.min(i + 999, size))) end
  return hand
end

-- Take up to so many of the oldest messages that never were leased off a facet.
local function pop(q, tenant, most)
  local key = q.key .. ':facet:' .. tenant
  local leased, inside, names, more = handOf(q, tenant)
  if not inside then return call('LPOP', key, most) or {} end
  local near, taken = words(names), {}
  for i = 1, math.min(#near, most) do taken[i] = near[i] end
  local some = more and #taken < most and call('LPOP', key, most - #taken) or {}
  for i = 1, #some do taken[#taken + 1] = some[i] end
  if #some > 0 then more = call('EXISTS', key) == 1 end
  call('HSET', q.key .. ':hand', tenant, hand(leased, true, listed(near, most + 1, #near), more))
  return taken
end

-- Two lists of names, each in order, as one; and how many of the first so many are of the first list.
local function merge(some, others, most)
  local all, of, i, j = {}, {[0] = 0}, 1, 1
  while #all < most and (some[i] or others[j]) do
    if some[i] and (not others[j] or tonumber(some[i]) < tonumber(others[j])) then
      all[#all + 1], i = some[i], i + 1
    else
      all[#all + 1], j = others[j], j + 1
    end
    of[#all] = i - 1
  end
  return all, of
end

-- Take up to so many of the oldest messages off a facet: what came back, which is older than the
-- rest, unless it never was leased but delayed from the start.
local function popOldest(q, tenant, most)
  local key = q.key .. ':back:' .. tenant
  local came = q.back > 0 and call('ZRANGE', key, 0, most - 1) or {}
  local near = #came
  if q.tracked and near > 0 then
    local _, _, names = handOf(q, tenant)
    local fresh = words(names)
    local rest = call('LRANGE', q.key .. ':facet:' .. tenant, 0, most - 1)
    for i = 1, #rest do fresh[#fresh + 1] = rest[i] end
    local all, of = merge(came, fresh, most)
    near = of[#all]
  end
  if near > 0 then
    call('ZREMRANGEBYRANK', key, 0, near - 1)
    q.back = q.back - near
  end
  local gone = {}
  for i = 1, near do gone[i] = came[i] end
  local others = near < most and pop(q, tenant, most - near) or {}
  for i = 1, #others do gone[#gone + 1] = others[i] end
  return gone, near
end

-- May a tenant that has so many leased be in the ring?
local function open(q, tenant, leased)
  if q.limit == 0 and q.special == 0 then return true end
  local weight, limit = allowed(q, tenant)
  return weight > 0 and (limit == 0 or leased < limit)
end

-- Tenants enter the ring at its tail. A paused queue stays wanted: resuming it hints.
local function ring(q, tenants)
  if #tenants == 0 then return end
  bulk('RPUSH', q.key .. ':ring', tenants)
  if q.wanted and not q.paused then
    q.wanted = false
    hint('q' .. q.u)
  end
end

-- A tenant that has something leasable, in its facet and not at hand, enters.
local function enter(q, tenant, leased)
  local more = not q.ordered and call('EXISTS', q.key .. ':facet:' .. tenant) == 1
  call('HSET', q.key .. ':hand', tenant, hand(leased, true, '', more))
  ring(q, {tenant})
end

local function park(q, tenant) tally(q, 'parked', call('ZADD', q.key .. ':parked', 0, tenant)) end

local function unpark(q, tenant)
  if q.parked > 0 then tally(q, 'parked', -call('ZREM', q.key .. ':parked', tenant)) end
end

-- A tenant in the ring has something leasable again.
local function fill(q, tenant)
  if q.hollow > 0 then tally(q, 'hollow', -call('SREM', q.key .. ':hollow', tenant)) end
end

-- A tenant that has something leasable enters if it is not in the ring and may.
local function admit(q, tenant)
  local leased, inside = handOf(q, tenant)
  if inside then return fill(q, tenant) end
  if not open(q, tenant, leased) then return park(q, tenant) end
  unpark(q, tenant)
  enter(q, tenant, leased)
end

-- A parked tenant enters if it may by now.
local function readmit(q, tenant)
  if q.parked == 0 or not call('ZSCORE', q.key .. ':parked', tenant) then return end
  local leased = handOf(q, tenant)
  if open(q, tenant, leased) then
    unpark(q, tenant)
    enter(q, tenant, leased)
  end
end

-- A changed limit or weight lets parked tenants enter. At most 1,000 are looked at; the
-- next lease goes on after the last of them (`wake`), so if nobody waits in the ring a
-- hint brings one about.
local function rouse(q)
  local from = q.wake == '*' and '-' or '(' .. string.sub(q.wake, 2)
  local some = call('ZRANGEBYLEX', q.key .. ':parked', from, '+', 'LIMIT', 0, 1000)
  for i = 1, #some do readmit(q, some[i]) end
  q.wake, q.changed = #some == 1000 and '>' .. some[1000] or '', true
  if q.wake ~= '' and q.wanted then
    q.wanted = false
    hint('q' .. q.u)
  end
end

-- One message of a tenant is not leased any more. Returns how many are.
local function land(q, tenant)
  local leased, inside, names, more = handOf(q, tenant)
  if leased > 1 or inside then call('HSET', q.key .. ':hand', tenant, hand(leased - 1, inside, names, more))
  else call('HDEL', q.key .. ':hand', tenant) end
  return leased - 1
end

-- How many messages of a tenant wait.
local function waiting(q, tenant)
  if q.ordered then return tonumber(call('HGET', q.key .. ':waiting', tenant)) or 0 end
  local _, _, names = handOf(q, tenant)
  return #words(names) + call('LLEN', q.key .. ':facet:' .. tenant) + call('ZCARD', q.key .. ':back:' .. tenant)
end

-- So many more messages of a tenant wait.
local function wait(q, tenant, by)
  q.ready = q.ready + by
  if q.ordered and by ~= 0 and call('HINCRBY', q.key .. ':waiting', tenant, by) == 0 then
    call('HDEL', q.key .. ':waiting', tenant)
  end
end

-- Does a tenant hold nothing, and has no settings?
local function empty(q, t)
  local key = q.key
  local leased, _, names = handOf(q, t)
  if leased > 0 or names ~= '' then return false end
  if call('EXISTS', key .. ':facet:' .. t, key .. ':back:' .. t, key .. ':late:' .. t, key .. ':lost:' .. t) > 0 then return false end
  return (q.special == 0 or call('HEXISTS', key .. ':tenant', t) == 0) and (not q.ordered or call('HEXISTS', key .. ':waiting', t) == 0)
end

-- Tenants that may have nothing left: those that do not are listed no more. Of tenants
-- that have no hand any more (landed) that tells it, unless the queue is one of the few.
local function vacate(q, tenants, landed)
  if #tenants == 0 then return end
  local none = tenants
  if not (landed and q.plain and q.parked == 0 and call('EXISTS', q.key .. ':delayed', q.key .. ':dead') == 0) then
    none = {}
    for i = 1, #tenants do
      if empty(q, tenants[i]) then none[#none + 1] = tenants[i] end
    end
  end
  bulk('ZREM', q.key .. ':tenants', none)
end

-- Tenants hold something.
local function enlist(q, tenants)
  local scored = {}
  for i = 1, #tenants do scored[2 * i - 1], scored[2 * i] = 0, tenants[i] end
  bulk('ZADD', q.key .. ':tenants', scored)
end

-- Ordered queues. The head of a key is in `head` as long as the key has a message that is
-- not settled; it is also in `heads:TENANT` while it may be leased. The others wait behind:
-- the next of them in `head` too, each after a space, and + if `behind` holds more.
local function place(who, name)
  local tenant = tenantOf(who)
  return tenant, #who > #tenant and '=' .. string.sub(who, #tenant + 2) or name
end

local function ready(q, name, who)
  local tenant, at = place(who, name)
  call('ZADD', q.key .. ':heads:' .. tenant, name, at)
end

-- Who is behind the head of a key: the tenant's `lines` names the keys that have someone,
-- or had since their first message that is not settled.
local function behind(q, who, name, next, line)
  line = line or call('HGET', q.key .. ':head', who)
  local head, rest = string.match(line, '^(%d+)(.*)$')
  if rest == '' then call('SADD', q.key .. ':lines:' .. tenantOf(who), who) end
  local after = line
  if next then after = head .. ' ' .. name .. rest
  elseif string.byte(line, #line) ~= 43 then after = line .. (#line < 20 * atHand and ' ' .. name or '+') end
  if after ~= line then call('HSET', q.key .. ':head', who, after) end
  if not next and string.byte(after, #after) == 43 then call('RPUSH', q.key .. ':behind:' .. who, name) end
end

-- A new message of a key waits. Returns whether it may be leased.
local function lineUp(q, name, who)
  local tenant = tenantOf(who)
  if #who > #tenant then
    local line = call('HGET', q.key .. ':head', who)
    if line then
      behind(q, who, name, false, line)
      return false
    end
    call('HSET', q.key .. ':head', who, name)
  end
  ready(q, name, who)
  return true
end

-- A key's line without its head, and the head then; nothing if nobody is behind it.
local function shorten(q, who, line)
  local rest = string.match(line, '^%d+ ?(.*)$')
  if rest == '' then return nil end
  if rest == '+' then
    local key = q.key .. ':behind:' .. who
    rest = table.concat(call('LPOP', key, atHand), ' ') .. (call('EXISTS', key) == 1 and '+' or '')
  end
  return rest, string.match(rest, '^%d+')
end

-- Take up to so many off the messages behind a key's head.
local function cutLine(q, who, most)
  local key = q.key .. ':behind:' .. who
  local head, rest, more = string.match(call('HGET', q.key .. ':head', who), '^(%d+)([ %d]*)(%+?)$')
  local near, taken = words(rest), {}
  for i = 1, math.min(#near, most) do taken[i] = near[i] end
  local some = more == '+' and #taken < most and call('LPOP', key, most - #taken) or {}
  for i = 1, #some do taken[#taken + 1] = some[i] end
  if #some > 0 and call('EXISTS', key) == 0 then more = '' end
  rest = listed(near, most + 1, #near) .. more
  call('HSET', q.key .. ':head', who, head .. rest)
  if rest == '' then call('SREM', q.key .. ':lines:' .. tenantOf(who), who) end
  return taken
end

-- A key goes on to its next message. Returns whether there is one.
local function advance(q, who)
  if tenantOf(who) == who then return false end
  local line, name = shorten(q, who, call('HGET', q.key .. ':head', who))
  if not name then
    call('HDEL', q.key .. ':head', who)
    call('SREM', q.key .. ':lines:' .. tenantOf(who), who)
    return false
  end
  call('HSET', q.key .. ':head', who, line)
  ready(q, name, who)
  return true
end

-- A key's head is gone for good: its next message may be leased.
local function pass(q, who)
  if q.ordered and advance(q, who) then admit(q, tenantOf(who)) end
end

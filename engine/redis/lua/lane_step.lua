-- Do up to max of what is due in the lane: ended leases and delayed retries go
-- back to their facets, or to the dead letters.
-- ARGV  3 max  4 lanes
-- Returns expired, returned, dead, 1 if something is still due, ms to the next
-- due entry.
if not lane() then return 'lane_missing' end
local max, lanes = tonumber(ARGV[3]), tonumber(ARGV[4])
local expired, returned, dead, looked = 0, 0, 0, 0
local queues = {}

local function known(u)
  if queues[u] == nil then queues[u] = queue(u) or false end
  return queues[u]
end

-- The messages of a group that are still leased under it, in the order they
-- joined, at most so many.
local function members(q, id, most)
  local seqs, found = {}, {}
  for seq in string.gmatch(call('HGET', q.key .. ':group', id) or '', '%d+') do seqs[#seqs + 1] = seq end
  looked = looked + #seqs
  local records = gather('HMGET', q.key .. ':leased', seqs)
  for i = 1, #seqs do
    if records[i] and #found < most then
      local deadline, token, attempt, tenant = leased(records[i])
      if group(deadline, token) == id then found[#found + 1] = {seqs[i], tenant, attempt} end
    end
  end
  return found
end

local function expire(q, id)
  local found = members(q, id, max - expired - returned)
  for _, f in ipairs(found) do
    call('HDEL', q.key .. ':leased', f[1])
    if retry(q, f[1], f[2], f[3], 0, '', lanes) then dead = dead + 1 end
  end
  part(q, {[id] = #found})
  expired = expired + #found
end

local function resume(q, entry, id)
  local seq = str(tonumber(id))
  local tenant = call('HGET', q.key .. ':delayed', seq)
  call('ZREM', T .. ':due', entry)
  if not tenant then return end
  call('HDEL', q.key .. ':delayed', seq)
  back(q, seq, tenant)
  returned = returned + 1
end

local function take(entry)
  local u, id = parse(entry)
  local q = known(u)
  if not q then call('ZREM', T .. ':due', entry)
  elseif string.sub(entry, 1, 1) == 'L' then expire(q, id)
  else resume(q, entry, id) end
end

-- A group that is mostly settled still names its messages, and entries of
-- removed queues fall out: looking at them is bounded too.
repeat
  local entries = call('ZRANGEBYSCORE', T .. ':due', '-inf', now, 'LIMIT', 0, max)
  for _, entry in ipairs(entries) do
    looked = looked + 1
    if expired + returned >= max or looked >= 2 * max + 2000 then break end
    take(entry)
  end
until #entries < max or expired + returned >= max or looked >= 2 * max + 2000
for _, q in pairs(queues) do
  if q then save(q) end
end
keep()
local left = due()
return {expired, returned, dead, left == 0 and 1 or 0, left}

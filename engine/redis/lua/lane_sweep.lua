-- Free up to max messages of what removed queues left in the lane.
-- ARGV  3 max
-- Returns how many were freed.
local m = lane('dropped')
if not m then return 'lane_missing' end
local max, freed = tonumber(ARGV[3]), 0

local function drop(seqs)
  release(seqs)
  freed = freed + #seqs
end

local function dropLeased(q)
  while freed < max do
    local seqs, groups = call('HRANDFIELD', q.key .. ':leased', math.min(max - freed, 500)), {}
    if #seqs == 0 then return end
    local records = call('HMGET', q.key .. ':leased', unpack(seqs))
    for i = 1, #records do
      local deadline, token = leased(records[i])
      groups[group(deadline, token)] = (groups[group(deadline, token)] or 0) + 1
    end
    call('HDEL', q.key .. ':leased', unpack(seqs))
    part(q, groups)
    drop(seqs)
  end
end

local function dropDelayed(q)
  while freed < max do
    local seqs = call('HRANDFIELD', q.key .. ':delayed', math.min(max - freed, 500))
    if #seqs == 0 then return end
    for i = 1, #seqs do call('ZREM', T .. ':due', delayed(q.u, seqs[i])) end
    call('HDEL', q.key .. ':delayed', unpack(seqs))
    drop(seqs)
  end
end

local function dropDead(key)
  while freed < max do
    local popped, seqs = call('ZPOPMIN', key .. ':dead', math.min(max - freed, 500)), {}
    if #popped == 0 then return end
    for i = 1, #popped, 2 do seqs[#seqs + 1] = popped[i] end
    bulk('HDEL', key .. ':why', seqs)
    drop(seqs)
  end
end

local function dropFacets(key)
  while freed < max do
    local tenant = call('LINDEX', key .. ':ring', 0)
    if not tenant then return end
    local popped, seqs = call('ZPOPMIN', key .. ':back:' .. tenant, max - freed), {}
    for i = 1, #popped, 2 do seqs[#seqs + 1] = popped[i] end
    drop(seqs)
    if freed < max then drop(call('LPOP', key .. ':facet:' .. tenant, max - freed) or {}) end
    if call('EXISTS', key .. ':back:' .. tenant, key .. ':facet:' .. tenant) == 0 then
      call('LPOP', key .. ':ring')
      call('SREM', key .. ':in', tenant)
    end
  end
end

while freed < max do
  local u = call('LINDEX', T .. ':trash', 0)
  if not u then break end
  local key = T .. ':q:' .. u
  dropLeased({u = u, key = key})
  dropDelayed({u = u, key = key})
  dropDead(key)
  dropFacets(key)
  if freed < max then
    call('UNLINK', key, key .. ':tries', key .. ':age', key .. ':ages')
    call('LPOP', T .. ':trash')
    gone = gone - 1
  end
end
keep('dropped', (tonumber(m[5]) or 0) + freed, 'gone', gone)
return freed

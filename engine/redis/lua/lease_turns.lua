-- A queue with weights, limits, or tenants in the ring that have nothing left:
-- play the ring's turns by all the rules, and write nothing. The turns end before a
-- message more than most would be taken.
-- ARGV  6 ms
local function playTurns(q, max, most, see)
  local p = {turns = {}, names = {}, pops = 0, served = {}, leave = {}, park = {}, credit = 0}
  local line, head, whole, visits = {}, 1, false, 0
  local lasting = tonumber(ARGV[6]) > 0

  -- The next tenants of the ring, and what few of them have of their own.
  local function more()
    local from = #line
    local some = call('LRANGE', q.key .. ':ring', from, from + max - 1)
    local own = q.special > 0 and gather('HMGET', q.key .. ':tenant', some) or {}
    local hands = gather('HMGET', q.key .. ':hand', some)
    for i = 1, #some do
      local f = {tenant = some[i], took = 0, back = 0, own = 0, gave = 0, weight = 1, room = math.huge}
      f.leased, f.inside, f.names, f.more = read(hands[i])
      local limit = q.limit
      if own[i] then
        local weight, most = string.match(own[i], '^(%d+) (%-?%d+)$')
        f.weight = tonumber(weight)
        if tonumber(most) >= 0 then limit = tonumber(most) end
      end
      if limit > 0 then f.room = limit - f.leased end
      line[#line + 1] = f
    end
    whole = #some < max
  end

  local function next()
    if head > #line and not whole and not p.round then more() end
    if head > #line and #p.served > 0 and (whole or p.round) then
      if not p.round then p.pops, p.round = #line, true end
      line, p.served, head = p.served, {}, 1
    end
    return line[head]
  end

  local function sees(f)
    if not f.list or f.took >= f.seen then
      see(f, f.list and 2 * f.took + f.weight or math.max(f.weight, math.ceil(max / #line)))
      if q.tracked then tracking().look(q, f.list) end
    end
    return f.list[f.took + 1]
  end

  -- One turn. Returns false when nothing more may be taken.
  local function turn(f)
    local left = f.weight
    if visits == 1 and q.turn == f.tenant and q.credit > 0 then left = math.min(left, q.credit) end
    local begun = left
    while left > 0 and f.room > 0 and sees(f) do
      if #p.turns == max or #p.turns == most then
        p.cut, p.credit = f, left < begun and left or 0
        return false
      end
      f.took, left = f.took + 1, left - 1
      if lasting and not (q.tracked and tracking().gone(q, f.list[f.took])) then f.room = f.room - 1 end
      p.turns[#p.turns + 1], p.names[#p.names + 1] = f, f.list[f.took]
    end
    head = head + 1
    if f.weight > 0 and f.room > 0 and sees(f) then p.served[#p.served + 1] = f
    else p.leave[#p.leave + 1] = f end
    return true
  end

  while #p.turns < max and visits < max + 1000 do
    local f = next()
    if not f then break end
    visits = visits + 1
    if not turn(f) then break end
  end
  if not p.round then p.pops = head - 1 end
  p.line, p.head = line, head
  return p
end

-- Write what the turns made of the ring.
local function turnRing(q, p, see)
  local stay = {}
  if p.pops > 0 then call('LPOP', q.key .. ':ring', p.pops) end
  for i = p.round and p.head or #p.line + 1, #p.line do stay[#stay + 1] = p.line[i].tenant end
  for i = 1, #p.served do stay[#stay + 1] = p.served[i].tenant end
  bulk('RPUSH', q.key .. ':ring', stay)
  for i = 1, #p.leave do
    local f = p.leave[i]
    if f.list == nil then see(f, 1) end
    if f.list[f.took + 1] then park(q, f.tenant) end
    fill(q, f.tenant)
    f.inside = false
  end
  if q.turn ~= '' or p.credit > 0 then
    q.turn, q.credit, q.changed = p.credit > 0 and p.cut.tenant or '', p.credit, true
  end
end


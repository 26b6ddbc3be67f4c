-- As many tenants wait as messages are asked for, none has a weight, a limit or anything
-- that came back, and leases last: each gives one message. Most leases from many tenants
-- are such, so nothing is done here that could be done once for all.
-- Read: what each gives, and its hand then.
local function planSingle(q, round, hands)
  local p = {names = {}, hands = {}, popped = {}, stays = {}}
  local names, after, stays, more = p.names, p.hands, p.stays, {}
  for i = 1, #round do
    local leased, name, rest = string.match(hands[i], '^(%d+)@ ?(%d*)(.*)$')
    if rest == '+' then
      local some = call('LRANGE', q.key .. ':facet:' .. round[i], 0, atHand)
      local size = math.min(#some, atHand)
      p.popped[i] = size
      rest = listed(some, name == '' and 2 or 1, size) .. (#some > size and '+' or '')
      if name == '' then name = some[1] end
    end
    local next = more[leased]
    if not next then
      next = str(tonumber(leased) + 1)
      more[leased] = next
    end
    names[i] = name
    stays[i] = rest ~= ''
    after[i] = next .. (stays[i] and '@' or '.') .. rest
  end
  return p
end

-- Write: the facets, the ring, and the hands of the first count.
local function writeSingle(q, p, round, count)
  local stay, kept, hands = {}, 0, {}
  for i = 1, count do
    hands[2 * i - 1], hands[2 * i] = round[i], p.hands[i]
    if p.stays[i] then
      kept = kept + 1
      stay[kept] = round[i]
    end
    if p.popped[i] then call('LPOP', q.key .. ':facet:' .. round[i], p.popped[i]) end
  end
  if count > 0 then call('LPOP', q.key .. ':ring', count) end
  bulk('RPUSH', q.key .. ':ring', stay)
  bulk('HSET', q.key .. ':hand', hands)
  q.ready = q.ready - count
end


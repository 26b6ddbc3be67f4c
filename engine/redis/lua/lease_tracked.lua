-- What a lease of a tracked queue sees of a facet. Some of it may be cancelled, and is dropped
-- when its turn comes.

-- What came back is older than the rest of the facet, unless it never was leased but delayed
-- from the start: then it is among them.
local function seeMixed(q, f, size)
  local came, fresh = call('ZRANGE', q.key .. ':back:' .. f.tenant, 0, size), words(f.names)
  f.own = #fresh
  if f.more and f.own <= size then
    local rest = call('LRANGE', q.key .. ':facet:' .. f.tenant, 0, size + 1 - f.own + atHand)
    for i = 1, #rest do fresh[#fresh + 1] = rest[i] end
  end
  f.fresh = fresh
  f.list, f.mix = merge(came, fresh, size + 1)
end

-- Of an ordered queue: a head that is cancelled lets its key go on at once, so the next of the
-- key may be given in the same call. lines are of the keys among the heads.
local function seeLines(q, f, size, heads, lines)
  local ahead, at = {}, 0
  for i = 1, #heads do
    local keyed = #f.whose[i] > #f.tenant
    if keyed then at = at + 1 end
    ahead[i] = {who = f.whose[i], line = keyed and words(lines[at]) or {heads[i]}, more = keyed and string.byte(lines[at], -1) == 43, at = 1, real = true}
  end
  for _, h in ipairs(ahead) do h.name = h.line[1] end
  f.list, f.whose, f.mix = {}, {}, {[0] = 0}

  -- The next of a key, read from behind if it is not at hand.
  local function after(h)
    local name = h.line[h.at + 1]
    if not name and h.more then
      for _, n in ipairs(call('LRANGE', q.key .. ':behind:' .. h.who, 0, size)) do h.line[#h.line + 1] = n end
      h.more, name = false, h.line[h.at + 1]
    end
    return name and {who = h.who, line = h.line, more = h.more, at = h.at + 1, name = name, real = false}
  end

  local function insert(h)
    local place = 1
    while ahead[place] and tonumber(ahead[place].name) < tonumber(h.name) do place = place + 1 end
    table.insert(ahead, place, h)
  end

  local ask = {}
  for i = 1, #ahead do ask[i] = ahead[i].name end
  tracking().look(q, ask)
  while #f.list <= size and ahead[1] do
    local h = table.remove(ahead, 1)
    local count = #f.list + 1
    f.list[count], f.whose[count], f.mix[count] = h.name, h.who, f.mix[count - 1] + (h.real and 1 or 0)
    local next = tracking().gone(q, h.name) and after(h)
    if next then
      tracking().look(q, {next.name})
      insert(next)
    end
  end
end


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
-- key may be given in the same call. f lists the heads.
local function seePast(q, f, size)
  local ahead, any = {}, false
  tracking().look(q, f.list)
  f.mix = nil
  for i = 1, #f.list do
    any = any or tracking().gone(q, f.list[i])
    ahead[i] = {name = f.list[i], who = f.whose[i], at = 1, real = true}
  end
  if not any then return end

  -- The next of a key, read from behind if it is not at hand.
  local function after(h)
    if #h.who == #f.tenant then return nil end
    if not h.line then
      local line = call('HGET', q.key .. ':head', h.who)
      h.line, h.more = words(line), string.byte(line, -1) == 43
    end
    if not h.line[h.at + 1] and h.more then
      for _, n in ipairs(call('LRANGE', q.key .. ':behind:' .. h.who, 0, size)) do h.line[#h.line + 1] = n end
      h.more = false
    end
    local name = h.line[h.at + 1]
    return name and {name = name, who = h.who, line = h.line, more = h.more, at = h.at + 1, real = false}
  end

  local function insert(h)
    local place = 1
    while ahead[place] and tonumber(ahead[place].name) < tonumber(h.name) do place = place + 1 end
    table.insert(ahead, place, h)
  end

  f.list, f.whose, f.mix = {}, {}, {[0] = 0}
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


-- Where operations are found: by queue (q and its uid) and by subject (s and it). `oi` holds the
-- newest numbers of each, every one after a space; + before them says that there are older ones, in
-- the sorted set `oi:` and the same: up to 100 numbers in a member, in order, by the first of them.
-- Numbers only ever come that are higher than all before.
local function indexing()
  local x, near, most = {}, 96, 100
  local function older(id) return T .. ':oi:' .. id end

  local function split(text)
    local list = {}
    for number in string.gmatch(text, '%d+') do list[#list + 1] = number end
    return list
  end

  local function join(list) return #list > 0 and ' ' .. table.concat(list, ' ') or '' end

  -- Numbers, those at hand and a list, go to the older ones, 100 to a member.
  local function age(id, text, list)
    if #list == 1 then -- what is at hand is short
      local chunk = string.match(text .. ' ' .. list[1], '%d.*$')
      return call('ZADD', older(id), string.match(chunk, '^%d+'), chunk)
    end
    local all, chunks = split(text), {}
    for i = 1, #list do all[#all + 1] = list[i] end
    for from = 1, #all, most do
      chunks[#chunks + 1], chunks[#chunks + 2] = all[from], table.concat(all, ' ', from, math.min(from + most - 1, #all))
    end
    bulk('ZADD', older(id), chunks)
  end

  -- Numbers, a list for each index, in order, are added.
  function x.add(ids, lists)
    local there, fields, size = gather('HMGET', T .. ':oi', ids), {}, 0
    for i = 1, #ids do
      local id, text, after = ids[i], there[i] or '', '+'
      local list = lists[id]
      if #text + 16 * #list > near then age(id, text, list) else after = text .. join(list) end
      if after ~= text then
        fields[size + 1], fields[size + 2] = id, after
        size = size + 2
      end
    end
    bulk('HSET', T .. ':oi', fields)
  end

  -- A list without those that are gone, which are taken from there.
  local function without(list, gone)
    local rest = {}
    for i = 1, #list do
      if gone[list[i]] then gone[list[i]] = nil else rest[#rest + 1] = list[i] end
    end
    return rest
  end

  -- Numbers are taken off the older ones. Returns whether any are left there.
  local function dropOlder(id, numbers, gone)
    for i = #numbers, 1, -1 do
      local chunk = gone[numbers[i]] and call('ZREVRANGEBYSCORE', older(id), numbers[i], '-inf', 'LIMIT', 0, 1)[1]
      if chunk then
        local rest = without(split(chunk), gone)
        call('ZREM', older(id), chunk)
        if #rest > 0 then call('ZADD', older(id), rest[1], table.concat(rest, ' ')) end
      end
    end
    return call('EXISTS', older(id)) == 1
  end

  -- Numbers are taken off.
  function x.drop(ids, lists)
    local there, fields, none = gather('HMGET', T .. ':oi', ids), {}, {}
    for i = 1, #ids do
      local id, text, gone = ids[i], there[i] or '', {}
      for _, number in ipairs(lists[id]) do gone[number] = true end
      local after, more = join(without(split(text), gone)), string.byte(text) == 43
      if more then more = not next(gone) or dropOlder(id, lists[id], gone) end
      after = (more and '+' or '') .. after
      if after == '' then none[#none + 1] = id elseif after ~= text then fields[#fields + 1], fields[#fields + 2] = id, after end
    end
    bulk('HSET', T .. ':oi', fields)
    bulk('HDEL', T .. ':oi', none)
  end

  -- Up to so many numbers below one, the highest first.
  function x.page(id, below, count)
    local text, list = call('HGET', T .. ':oi', id) or '', {}
    local function take(numbers)
      for i = #numbers, 1, -1 do
        if #list == count then return end
        if tonumber(numbers[i]) < below then list[#list + 1] = numbers[i] end
      end
    end
    take(split(text))
    if string.byte(text) ~= 43 then return list end
    local from = below == math.huge and '+inf' or '(' .. str(below)
    while #list < count do
      local some = math.ceil((count - #list) / most) -- a page reads no more of the index than it shows
      local chunks = call('ZREVRANGEBYSCORE', older(id), from, '-inf', 'LIMIT', 0, some)
      for i = 1, #chunks do take(split(chunks[i])) end
      if #chunks < some then break end
      from = '(' .. string.match(chunks[some], '^%d+')
    end
    return list
  end
  return x
end

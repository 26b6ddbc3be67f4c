-- What is counted of a tracked queue's operations: s successes, e errors, c cancelled, r retried;
-- q and a class: how long they were queued; x and a class: how long they ran. `now` counts the
-- current minute (at); when another begins, it is added to `minutes`, `hours`, `days` and the total.
local function counting()
  local c = {}

  -- The hashes of buckets, how many minutes a bucket lasts, and is kept after it began.
  c.lengths = {m = {'minutes', 1, 2880}, h = {'hours', 60, 86400}, d = {'days', 1440, 1051200}}

  -- A bucket is four doubles (s, e, c, r), then kind, class and count of each class.
  function c.add(packed, sum)
    local s, e, cancelled, r = struct.unpack('<dddd', packed)
    sum.s, sum.e, sum.c, sum.r = (sum.s or 0) + s, (sum.e or 0) + e, (sum.c or 0) + cancelled, (sum.r or 0) + r
    for at = 33, #packed, 11 do
      local kind, class, count = struct.unpack('<c1I2d', packed, at)
      local field = kind .. str(class)
      sum[field] = (sum[field] or 0) + count
    end
    return sum
  end

  function c.pack(sum)
    local parts = {struct.pack('<dddd', sum.s or 0, sum.e or 0, sum.c or 0, sum.r or 0)}
    for field, count in pairs(sum) do
      if #field > 1 then
        parts[#parts + 1] = struct.pack('<c1I2d', string.sub(field, 1, 1), tonumber(string.sub(field, 2)), count)
      end
    end
    return table.concat(parts)
  end

  -- The current minute's counts; and what else there is: the minute, the total before it, and
  -- from which bucket of each length on there may be any.
  function c.now(q)
    local list, sum, rest = call('HGETALL', q.key .. ':now'), {}, {}
    for i = 1, #list, 2 do
      if string.find(list[i], '^[secrqx]%d*$') then sum[list[i]] = tonumber(list[i + 1]) else rest[list[i]] = list[i + 1] end
    end
    return sum, rest
  end

  -- The total, with the current minute.
  function c.total(sum, rest)
    local tally = {s = sum.s, e = sum.e, c = sum.c, r = sum.r}
    return c.pack(rest.total and c.add(rest.total, tally) or tally)
  end

  -- The minute is over. Buckets that are too old go.
  function c.fold(q, minute)
    local sum, rest = c.now(q)
    local packed, fields = c.pack(sum), {'total', c.total(sum, rest)}
    for _, length in pairs(c.lengths) do
      local name, span, kept = unpack(length)
      local key, at, old = q.key .. ':' .. name, floor(minute / span), {}
      local low, bound = tonumber(rest[name]) or at, math.ceil((now / 60000 - kept) / span)
      local there = call('HGET', key, str(at))
      call('HSET', key, str(at), there and c.pack(c.add(there, c.add(packed, {}))) or packed)
      for past = low, math.min(bound - 1, at) do old[#old + 1] = str(past) end
      bulk('HDEL', key, old)
      fields[#fields + 1], fields[#fields + 2] = name, str(math.max(low, bound))
    end
    call('UNLINK', q.key .. ':now')
    bulk('HSET', q.key .. ':now', fields)
  end
  return c
end

-- What becomes of the operations of a tracked queue, in the step that moves its messages. It is
-- built when a script meets such a queue, so that the others pay nothing for it.
-- An operation that has not finished is RUNNING if its message is leased, else QUEUED; attempt
-- and start of a running one are in the record of its lease. What else there is to know is noted
-- with the message, for the few that have anything: its number if that is not the message's name,
-- what became of earlier attempts, progress, a digest that must not be open twice, a wish to
-- cancel (flag 1), or that it was cancelled while it waited (flag 2) and only keeps its place.
local track

local function tracking()
  if track then return track end
  track = {}
  local opened, fresh, large, found, order, classes, watched = {}, 0, {}, {}, {}, {}, nil
  local noted, ended = '<BdI4dI4BI2c0I2c0I2c0c32', '<BBI4dddBI2c0I2c0'
  local padding = string.rep('\0', 32) -- a long value keeps Redis from packing the hash

  local function note(q, name)
    local n = q.notes[name] or {wish = false, gone = false, number = 0, attempts = 0, started = 0, told = 0, percent = 0, text = '', digest = '', error = ''}
    q.notes[name], q.dirty[name] = n, true
    return n
  end
  track.note = note

  function track.read(record)
    local flags, number, attempts, started, told, percent, text, digest, error = struct.unpack(noted, record)
    return {
      wish = flags == 1, gone = flags == 2, number = number, attempts = attempts, started = started,
      told = told, percent = percent, text = text, digest = digest, error = error,
    }
  end

  -- Read what is noted of messages.
  function track.look(q, names)
    if q.annotated == nil then q.annotated = call('EXISTS', q.key .. ':note') == 1 end
    if not q.annotated then return end
    local found = gather('HMGET', q.key .. ':note', names)
    for i = 1, #names do
      if found[i] and not q.dirty[names[i]] then q.notes[names[i]] = track.read(found[i]) end
    end
  end

  function track.number(q, name)
    local n = q.notes[name]
    return n and n.number > 0 and str(n.number) or name
  end

  -- The class of a length of time: 0 for none, then eight to each power of two.
  local function class(ms)
    if ms <= 0 then return '0' end
    local part, power = math.frexp(ms)
    return str(8 * power + floor(16 * part) - 8)
  end

  local function count(q, what, by) q.tally[what] = (q.tally[what] or 0) + by end

  -- An operation has changed; whoever watches it is to be told.
  local function moved(q, number)
    if watched == nil then watched = call('EXISTS', T .. ':ow') == 1 end
    if watched then q.moved[#q.moved + 1] = number end
  end
  track.moved = moved

  -- An operation is to be found by queue or subject.
  local function list(id, number)
    local numbers = found[id]
    if numbers then
      numbers[#numbers + 1] = number
    else
      found[id], order[#order + 1] = {number}, id
    end
  end

  -- An operation begins: text is what it was opened with, payload that if it is long, id how it is
  -- found by subject. A text is stored as it came if the number tells the message and the time: plain.
  function track.open(q, number, name, from, text, payload, id, plain)
    opened[fresh + 1], opened[fresh + 2] = number, plain and text or struct.pack('<Bddd', 1, now, from, tonumber(name)) .. text
    fresh = fresh + 2
    if number ~= name then note(q, name).number = tonumber(number) end
    if payload ~= '' then large[#large + 1], large[#large + 2] = number, payload end
    list(q.id, number)
    if id ~= '' then list(id, number) end
  end

  local function ending(status, flags, attempts, started, kept, percent, text, error)
    return struct.pack(ended, string.byte(status), flags, attempts, started, now, now + kept, percent, #text, text, #error, error)
  end

  local function over(q, number, record, kept)
    local ends, lapsing = q.over, q.expiring[kept]
    if not lapsing then
      lapsing = {}
      q.expiring[kept] = lapsing
    end
    local size = #ends
    ends[size + 1], ends[size + 2] = number, record
    lapsing[#lapsing + 1] = number
    moved(q, number)
  end

  -- The operation of a message ends: S, E or C. Of one that was cancelled in its place only that is left.
  function track.finish(q, name, status, attempts, started, error, output)
    local n = q.notes[name]
    if n then q.notes[name], q.dirty[name] = nil, true end
    if n and n.gone then
      q.cancelled = q.cancelled - 1
      return
    end
    local number, flags, percent, text = name, 0, 0, ''
    if n then
      if n.number > 0 then number = str(n.number) end
      if n.wish then flags = 1 end
      if n.told == attempts and attempts > 0 then flags, percent, text = flags + 2, n.percent, n.text end
      if n.digest ~= '' then q.closed[#q.closed + 1] = n.digest end
      error = error or n.error
    end
    local kept = status == 'E' and q.kept.failed or q.kept.other
    over(q, number, ending(status, flags, attempts, started, kept, percent, text, error or '') .. (output or ''), kept)
    count(q, string.lower(status), 1)
    if status ~= 'C' then count(q, 'x' .. class(now - started), 1) end
  end

  -- Messages were acked. Those of one lease end alike if nothing is noted of them.
  function track.succeed(q, names, heads, outputs)
    for i = 1, #names do
      local name, head = names[i], heads[i]
      if q.notes[name] or outputs[i] ~= '' then
        track.finish(q, name, 'S', head.attempt, head.started, nil, outputs[i])
      else
        if not head.ending then
          head.ending, head.class = ending('S', 0, head.attempt, head.started, q.kept.other, 0, '', ''), 'x' .. class(now - head.started)
        end
        over(q, name, head.ending, q.kept.other)
        head.size = head.size + 1
      end
    end
    for i = 1, #heads do
      if heads[i].size > 0 then
        count(q, 's', heads[i].size)
        count(q, heads[i].class, heads[i].size)
        heads[i].size = 0
      end
    end
  end

  -- Messages that waited or were delayed are gone.
  function track.cancel(q, names)
    track.look(q, names)
    for i = 1, #names do
      local n = q.notes[names[i]]
      track.finish(q, names[i], 'C', n and n.attempts or 0, n and n.started or 0)
    end
  end

  -- The attempt of a message failed, and it waits again.
  function track.again(q, name, attempts, started, error)
    local n = note(q, name)
    n.attempts, n.started, n.error = attempts, started, error
    count(q, 'r', 1)
    moved(q, track.number(q, name))
  end

  function track.gone(q, name)
    local n = q.notes[name]
    return n and n.gone
  end

  -- The time at which the lane's clock gave a number.
  local function clock(number, lanes) return floor(floor(tonumber(number) / lanes) / 128) + 1735689600000 end

  -- Read the operations of messages that are to be leased: which are cancelled; of those of which
  -- something is noted number, secret, and since when they could run. The bodies tell of the others.
  function track.plan(q, names, size, lanes)
    local p = {numbers = names, secrets = {}, gone = {}, from = {}, any = false}
    if size == 0 then return p end
    track.look(q, #names == size and names or {unpack(names, 1, size)})
    if not q.annotated then return p end
    local numbers, where = {}, {}
    p.numbers = {}
    for i = 1, size do
      local n = q.notes[names[i]]
      p.numbers[i], p.gone[i] = track.number(q, names[i]), n and n.gone
      p.any = p.any or p.gone[i]
      if n and not n.gone then numbers[#numbers + 1], where[#where + 1] = p.numbers[i], i end
    end
    local records = gather('HMGET', T .. ':op', numbers)
    for j, i in ipairs(where) do
      if records[j] then
        local stamped = string.byte(records[j]) == 1
        local _, secret = struct.unpack('<I2c0c16', records[j], stamped and 27 or 2)
        p.secrets[i], p.from[i] = secret, stamped and struct.unpack('<d', records[j], 10) or clock(p.numbers[i], lanes)
      end
    end
    return p
  end

  -- When the event of a body was recorded, if it was published with an operation.
  local function recorded(name, body, lanes)
    local first = string.byte(body)
    if first == 3 then return clock(name, lanes) end
    return first == 1 and string.byte(body, 18) == 3 and struct.unpack('<d', body, 10) or nil
  end

  -- One of them is leased, for the so-manieth time.
  function track.run(q, p, i, attempt, body, lanes)
    moved(q, p.numbers[i])
    local from = p.from[i] or attempt == 1 and body and recorded(p.numbers[i], body, lanes)
    if attempt > 1 or not from then return end
    local class = classes[from] or 'q' .. class(now - from)
    classes[from] = class
    count(q, class, 1)
  end

  -- Write: what was opened.
  local function writeOpened()
    if fresh == 0 then return end
    bulk('HSET', T .. ':op', opened)
    bulk('HSET', T .. ':oload', large)
    indexing().add(order, found)
    opened, fresh, large, found, order = {}, 0, {}, {}, {}
  end

  local function writeNotes(q)
    local set, none = {}, {}
    for name in pairs(q.dirty) do
      local n = q.notes[name]
      if n then
        set[#set + 1], set[#set + 2] = name, struct.pack(noted, n.gone and 2 or n.wish and 1 or 0, n.number, n.attempts, n.started,
          n.told, n.percent, #n.text, n.text, #n.digest, n.digest, #n.error, n.error, padding)
      else
        none[#none + 1] = name
      end
    end
    bulk('HSET', q.key .. ':note', set)
    bulk('HDEL', q.key .. ':note', none)
  end

  local function writeEnded(q)
    bulk('HSET', T .. ':of', q.over)
    for kept, numbers in pairs(q.expiring) do
      local minute = floor((now + kept) / 60000)
      local key = T .. ':ox:' .. q.u .. ':' .. str(minute)
      if call('RPUSH', key, table.concat(numbers, ' ')) == 1 then plan((minute + 1) * 60000, member('O', q.u, str(minute))) end
    end
    bulk('HDEL', T .. ':od', q.closed)
  end

  -- Count in the current minute; when it is another than before, that is added up.
  local function countUp(q)
    local key, minute = q.key .. ':now', floor(now / 60000)
    local was = tonumber(call('HGET', key, 'at'))
    if was ~= minute then
      if was then counting().fold(q, was) end
      call('HSET', key, 'at', str(minute))
    end
    for what, by in pairs(q.tally) do call('HINCRBY', key, what, by) end
  end

  -- Whoever watches one that has changed is told, once.
  local function tell(q)
    if #q.moved == 0 then return end
    local watched, seen = gather('SMISMEMBER', T .. ':ow', q.moved), {}
    for i = 1, #q.moved do
      if watched[i] == 1 and not seen[q.moved[i]] then
        seen[q.moved[i]] = true
        call('SREM', T .. ':ow', q.moved[i])
        hint('o' .. q.moved[i])
      end
    end
  end

  -- Write what became of a queue's operations.
  function track.flush(q)
    writeOpened()
    if q.cancelled ~= 0 then call('HINCRBY', q.key, 'cancelled', q.cancelled) end
    if next(q.dirty) then writeNotes(q) end
    if #q.over > 0 then writeEnded(q) end
    if q.known and next(q.tally) then countUp(q) end
    tell(q)
  end

  -- Take up to so many numbers off those that expire in a minute: the lowest, or if there are very
  -- many, those that ended first.
  local function pastDue(key, most)
    local texts, numbers, used = call('LRANGE', key, 0, 49), {}, 0
    local many, size = call('LLEN', key) > #texts, 0
    for i = 1, #texts do size = size + #texts[i] end
    many = many or size > 50000
    for i = 1, #texts do
      if many and #numbers >= most then break end
      for number in string.gmatch(texts[i], '%d+') do numbers[#numbers + 1] = number end
      used = i
    end
    if not many then table.sort(numbers, function(a, b) return tonumber(a) < tonumber(b) end) end
    if used > 0 then call('LPOP', key, used) end
    if #numbers > most then call('LPUSH', key, table.concat(numbers, ' ', most + 1)) end
    return {unpack(numbers, 1, math.min(most, #numbers))}
  end

  -- How an operation is found by subject.
  local function subjectOf(record)
    local _, _, _, _, subject = struct.unpack('<I2c0c16I2c0I2c0I2c0', record, string.byte(record) == 1 and 27 or 2)
    return 's' .. subject
  end

  -- Forget up to so many operations of a queue that expired in a minute. Returns how many, and
  -- whether there are more.
  function track.expire(u, minute, most)
    local key, ids, gone = T .. ':ox:' .. u .. ':' .. minute, {'q' .. u}, {}
    local numbers = pastDue(key, most)
    local records = gather('HMGET', T .. ':op', numbers)
    gone['q' .. u] = numbers
    for i = 1, #numbers do
      local id = records[i] and subjectOf(records[i]) or 's'
      if id ~= 's' then
        if not gone[id] then gone[id], ids[#ids + 1] = {}, id end
        table.insert(gone[id], numbers[i])
      end
    end
    indexing().drop(ids, gone)
    for _, name in ipairs({':op', ':of', ':oload'}) do bulk('HDEL', T .. name, numbers) end
    return #numbers, call('EXISTS', key) == 1
  end
  return track
end

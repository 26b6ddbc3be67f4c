-- What publish and inject share: events join batches. Nothing is written until flush.
local entering, collecting = {}, {} -- who enters the ring, in order; who has collected

-- What collects is full: no more joins it.
local function close(s)
  local part = s.parts[#s.parts]
  if not part then
    part = {name = str(s.current)}
    s.parts[1] = part
  end
  part.full, part.count, part.bytes = true, s.count, s.bytes
  s.current, s.count, s.bytes, s.ready = 0, 0, 0, s.ready + 1
  if s.inside == 0 and batch.servable(s) then
    s.inside = 1
    entering[#entering + 1] = s.u
  end
end

-- An event joins what collects. Returns whether the subscription takes it.
local function collect(s, name, size)
  if not s.parts then s.parts, collecting[#collecting + 1] = {}, s end
  if s.disabled then
    s.skipped = s.skipped + 1
    return false
  end
  if s.current > 0 and s.bytes + size > s.most then close(s) end
  local part = s.parts[#s.parts]
  if s.current == 0 then
    part = {name = name, fresh = true}
    s.parts[#s.parts + 1], s.current = part, tonumber(name)
  elseif not part then
    part = {name = str(s.current)}
    s.parts[1] = part
  end
  part[#part + 1] = name
  s.count, s.bytes, s.queued = s.count + 1, s.bytes + size, s.queued + 1
  if s.count >= s.events then close(s) end
  return true
end

-- One batch of a subscription as it is after that.
local function flushPart(s, part)
  bulk('RPUSH', s.key .. ':events:' .. part.name, part)
  if not (part.fresh or part.full) then return end
  local b, state, at = nil, 'R', 0
  if part.fresh then
    b = {name = part.name, attempts = 0, created = now, token = string.rep('\0', 16), node = '', format = s.format, error = ''}
    call('ZADD', T .. ':batches', b.name, batch.listed(s, b.name))
  else
    b = batch.get(s, part.name)
    call('ZREM', s.key .. ':early', b.name)
    call('ZREM', T .. ':due', batch.due(s, b))
  end
  if not part.full then state, at = 'E', now + s.timeout end
  b.state, b.due, b.count, b.bytes = state, at, part.count or 0, part.bytes or 0
  call('ZADD', s.key .. states[state], b.name, b.name)
  if at > 0 then plan(at, batch.due(s, b)) end
  batch.put(s, b)
end

local function flush()
  for i = 1, #collecting do
    local s = collecting[i]
    for j = 1, #s.parts do flushPart(s, s.parts[j]) end
    batch.save(s)
  end
  batch.ring(entering)
end

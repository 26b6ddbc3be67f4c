-- What is shown of operations. A record is a zero byte, the tenant with its length, a secret (16
-- bytes), then uid, queue, subject, type and event, each with its length, and the payload: 0 none, 1
-- and the payload, or 2 if it lies apart. If its number does not tell when it was queued and its
-- message, 1, the time, from when it could run, and the message (8 bytes each) stand before.
local function view(numbers)
  local records, ends = gather('HMGET', T .. ':op', numbers), gather('HMGET', T .. ':of', numbers)
  local list, open = {}, {}
  for i = 1, #numbers do
    if records[i] then
      local stamped, message = string.byte(records[i]) == 1, numbers[i]
      local tenant, _, uid = struct.unpack('<I2c0c16I2c0', records[i], stamped and 27 or 2)
      if stamped then message = str((struct.unpack('<d', records[i], 18))) end
      local o = {number = numbers[i], record = records[i], ended = ends[i] or '', message = message, uid = uid, tenant = tenant, lease = '', note = ''}
      list[#list + 1] = o
      if ends[i] then
        o.status, o.expires = string.sub(ends[i], 1, 1), struct.unpack('<d', ends[i], 23)
      else
        open[uid] = open[uid] or {list = {}, names = {}}
        table.insert(open[uid].list, o)
        table.insert(open[uid].names, o.message)
      end
    end
  end
  for uid, some in pairs(open) do
    local key = T .. ':q:' .. uid
    local leases, notes = gather('HMGET', key .. ':leased', some.names), gather('HMGET', key .. ':note', some.names)
    for i, o in ipairs(some.list) do
      o.status, o.note = leases[i] and 'R' or 'Q', notes[i] or ''
      if leases[i] then o.lease = string.sub(leases[i], 25, 36) end
    end
  end
  return list
end

-- Has it finished, and is to be forgotten?
local function expired(o) return o.expires ~= nil and now >= o.expires end

-- Number, record, end, lease, note and payload of each that is shown.
local function show(list)
  local reply = {}
  for i = 1, #list do
    local o = list[i]
    local payload = string.byte(o.record, -1) == 2 and call('HGET', T .. ':oload', o.number) or ''
    for _, v in ipairs({o.number, o.record, o.ended, o.lease, o.note, payload}) do reply[#reply + 1] = v end
  end
  return reply
end

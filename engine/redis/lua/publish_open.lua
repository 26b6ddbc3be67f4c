-- The part of a publish that begins operations. Nothing goes to a tracked queue: open is nil.
-- ARGV  after the names: event, queue, subject and long payload of each operation, in the order of
--       the events; then what each is opened with; then the subjects; then the long payloads
if nO > 0 then
  local index, next, at, begin = ARGV[aO + 1], 1, 1, tracking().open
  local exact = (now - 1735689600000 + 1) * 128 -- below it a number tells the time
  local event, queueAt, subject, payload = 0, 0, 0, 0

  local function read()
    if next > nO then event = nil return end
    event, queueAt, subject, payload, at = struct.unpack('<I4I4I4I4', index, at)
  end
  read()

  -- The operations of an event: the first has its name as a number, the others the next numbers
  -- of the lane's clock. Returns the last number.
  function open(e, n, name)
    while event and event < e do
      next = next + 1
      read()
    end
    local number = name
    while event == e do
      local q = queues[queueAt]
      if q.tracked then
        begin(q, number, name, now, ARGV[aO + 1 + next], payload > 0 and ARGV[aO + 1 + nO + nU + payload] or '',
          subject > 0 and ARGV[aO + 1 + nO + subject] or '', number == name and n < exact)
      end
      next = next + 1
      read()
      if event == e then
        n = n + 1
        number = str(n * lanes + own)
      end
    end
    return n
  end
end

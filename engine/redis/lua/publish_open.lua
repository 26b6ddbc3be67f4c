-- The part of a publish that begins operations. Nothing goes to a tracked queue: open is nil.
-- ARGV  after the names: event and queue of each operation, in the order of the events; then
--       of each what it is opened with, its payload if that is long, its subject
if nO > 0 then
  local index, next, at, event, queueAt = ARGV[aO + 1], 1, 1, 0, 0

  local function read()
    if next > nO then event = nil return end
    event, queueAt, at = struct.unpack('<I4I4', index, at)
  end
  read()

  -- The operations of an event: the first has its name as a number, the others the next numbers
  -- of the lane's clock. Returns the last number.
  function open(e, n, name, tenant)
    while event and event < e do
      next = next + 1
      read()
    end
    local number = name
    while event == e do
      local q, arg = queues[queueAt], aO + 3 * next - 1
      if q.tracked then tracking().open(q, tenant, number, name, now, ARGV[arg], ARGV[arg + 1], ARGV[arg + 2]) end
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

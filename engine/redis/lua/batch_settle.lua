-- End pending batches: they were sent, or sending them failed.
-- ARGV  3 count, then uid, name, token, 1 if it was sent, error, ms that the receiver asked
--       for, jitter, log of each
-- Returns ms to the next due entry, then of each 1 if it is lost, 1 if it is dead, since
-- when the subscription fails.
if not lane() then return 'lane_missing' end
local reply = {}

-- A success ends all backing off.
local function recover(s)
  if s.parked > 0 then call('ZREM', T .. ':due', batch.parking(s)) end
  if s.since > 0 then call('HDEL', s.key, 'reason') end
  s.fails, s.round, s.parked, s.probing, s.since = 0, 0, 0, 0, 0
end

-- Returns whether the batch is lost, and whether it is dead.
local function settle(s, name, token, ok, text, after, jitter)
  local b = batch.get(s, name)
  if not b or b.state ~= 'P' or b.token ~= token or b.due <= now then return 1, 0 end
  if ok ~= '1' then return 0, batch.fail(s, b, text, tonumber(after), tonumber(jitter)) and 1 or 0 end
  batch.remove(s, b)
  s.sent = s.sent + b.count
  recover(s)
  batch.admit(s)
  return 0, 0
end

local function log(s, text)
  if text == '' then return end
  call('LPUSH', s.key .. ':log', text)
  call('LTRIM', s.key .. ':log', 0, 99)
end

for at = 4, 3 + 8 * tonumber(ARGV[3]), 8 do
  local s, lost, dead = batch.of(ARGV[at]), 1, 0
  if s then
    log(s, ARGV[at + 7])
    lost, dead = settle(s, unpack(ARGV, at + 1, at + 6))
  end
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = lost, dead, s and s.since or 0
end
batch.saveAll()
keep()
return {due(), reply}

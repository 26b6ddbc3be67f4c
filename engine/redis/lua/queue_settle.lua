-- End leases of one queue: ack, retry or bury.
-- ARGV  3 uid  4 verb a, r or b  5 lanes  6 count  7 tokens, 16 bytes each, then
--       the seqs; with r the delays in ms; with r and b the errors
-- Returns how many are dead because their attempts were spent, ms to the next
-- due entry, and the indexes of the items that are lost.
if not lane() then return 'lane_missing' end
local q = queue(ARGV[3])
if not q then return 'not_found' end
local verb, lanes, count, tokens = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local seqs = {unpack(ARGV, 8, 7 + count)}

-- Read and decide: live is what is leased under the token and has not ended.
-- Messages of one lease call begin alike, so that each group is read once.
local records = gather('HMGET', q.key .. ':leased', seqs)
local lost, live, groups, again, taken, found, heads = {}, {}, {}, {}, {}, {}, {}
for i = 1, count do
  local record, head = records[i], nil
  if record and not taken[seqs[i]] then
    local first = string.sub(record, 1, 24)
    head = heads[first]
    if not head then
      local deadline, token = leased(record)
      head = {token = token, live = deadline > now, id = group(deadline, token)}
      heads[first] = head
    end
  end
  if not head or not head.live or head.token ~= string.sub(tokens, 16 * i - 15, 16 * i) then
    lost[#lost + 1] = i - 1
  else
    groups[head.id], taken[seqs[i]] = (groups[head.id] or 0) + 1, true
    live[#live + 1] = seqs[i]
    local attempt = struct.unpack('<I4', record, 25)
    if verb ~= 'a' then found[#found + 1] = {seqs[i], string.sub(record, 29), attempt, i} end
    if attempt > 1 then again[#again + 1] = seqs[i] end
  end
end

-- Write.
local dead = 0
if #live > 0 then
  bulk('HDEL', q.key .. ':leased', live)
  part(q, groups)
  if verb == 'a' then
    release(live)
    bulk('HDEL', q.key .. ':tries', again)
    settled(q, live, lanes)
    q.acked = q.acked + #live
  end
  for _, f in ipairs(found) do
    if verb == 'b' then
      bury(q, f[1], f[2], f[3], 'b', ARGV[7 + count + f[4]], lanes)
    elseif retry(q, f[1], f[2], f[3], tonumber(ARGV[7 + count + f[4]]), ARGV[7 + 2 * count + f[4]], lanes) then
      dead = dead + 1
    end
  end
  save(q)
end
keep()
return {dead, due(), lost}

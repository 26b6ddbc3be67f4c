-- Prolong leases of one queue.
-- ARGV  3 uid  4 ms  5 count  6 tokens, 16 bytes each, then the names
-- Returns the new deadline, ms to the next due entry, and the indexes of the
-- items that are lost, and of those whose operation is to be cancelled.
if not lane() then return 'lane_missing' end
local q = queue(ARGV[3])
if not q then return 'not_found' end
local count, tokens, deadline = tonumber(ARGV[5]), ARGV[6], now + tonumber(ARGV[4])
local seqs = {unpack(ARGV, 7, 6 + count)}

-- Read and decide: which live messages change to which group.
local records = gather('HMGET', q.key .. ':leased', seqs)
local lost, groups, joins, order, fresh, taken, owners = {}, {}, {}, {}, {}, {}, {}
local cancelled = {}
if q.tracked then tracking().look(q, seqs) end
for i = 1, count do
  local ends, token, attempt, who, started
  if records[i] then ends, token, attempt, who, started = leased(q, records[i]) end
  if not ends or token ~= string.sub(tokens, 16 * i - 15, 16 * i) or ends <= now then
    lost[#lost + 1] = i - 1
  elseif q.tracked and q.notes[seqs[i]] and q.notes[seqs[i]].wish then
    cancelled[#cancelled + 1] = i - 1
  end
  if lost[#lost] ~= i - 1 and ends ~= deadline and not taken[seqs[i]] then
    taken[seqs[i]] = true
    local id = group(ends, token)
    groups[id] = (groups[id] or 0) + 1
    if not joins[token] then joins[token], order[#order + 1], owners[token] = {}, token, whose(q, id) end
    table.insert(joins[token], seqs[i])
    fresh[#fresh + 1], fresh[#fresh + 2] = seqs[i], lease(deadline, token, attempt, started) .. who
  end
end

-- Write.
bulk('HSET', q.key .. ':leased', fresh)
part(q, groups)
for _, token in ipairs(order) do join(q, deadline, token, table.concat(joins[token], ' '), #joins[token], owners[token]) end
if q.changed then save(q) end
keep()
return {deadline, due(), lost, cancelled}

-- List dead letters by name.
-- ARGV  3 uid  4 tenant, empty for all  5 name to begin after  6 limit  7 bytes
-- Returns name, record of why, body of each.
if not lane() then return 'lane_missing' end
local q = queue(ARGV[3])
if not q then return 'not_found' end
local key, bytes, size = q.key .. ':dead', tonumber(ARGV[7]), 0
if ARGV[4] ~= '' then key = q.key .. ':lost:' .. ARGV[4] end
local names, reply = call('ZRANGEBYSCORE', key, '(' .. ARGV[5], '+inf', 'LIMIT', 0, ARGV[6]), {}
local why = gather('HMGET', q.key .. ':why', names)
for i = 1, #names do
  local body = call('HGET', T .. ':body', names[i])
  size = size + (body and #body or 0)
  if size > bytes and i > 1 then break end
  for _, v in ipairs(body and {names[i], why[i], body} or {}) do reply[#reply + 1] = v end
end
return reply

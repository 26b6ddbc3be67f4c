-- The last part of a publish: write. Nothing here can fail.
local refused = true
for i = 1, nR do refused = refused and answers[i] >= 0 end
if refused then return {now, n0, -1, answers, odd} end

local function rotate(name, ended)
  local newer, older = T .. ':' .. name .. '0', T .. ':' .. name .. '1'
  call('UNLINK', older)
  if ended == 2 then call('UNLINK', newer) end
  if call('EXISTS', newer) == 1 then call('RENAME', newer, older) end
end
if dedupeOver > 0 then rotate('dedupe', dedupeOver) dedupeAt = now + window end
if keyOver > 0 then rotate('key', keyOver) keyAt = now + keyWindow end
local latest = {}
for key in pairs(chained) do
  latest[#latest + 1] = keys[key]
  latest[#latest + 1] = last[key]
end
published = published + n - n0 + 1
keep('n', str(n >= n0 and n or (tonumber(m[5]) or 0)), 'v', str(version), 'published', str(published), 'duplicates', str(duplicates),
  'unrouted', str(unrouted), 'dedupe', str(dedupeAt), 'keying', str(keyAt))
bulk('HSET', T .. ':body', stored)
bulk('HSET', T .. ':holders', holders)
bulk('HSET', T .. ':key0', latest)
bulk('HSET', T .. ':dedupe0', remember)
-- Tenants enter the ring in the order of their first messages.
for i = 1, nQ do
  local q, fresh = queues[i], {}
  for _, f in ipairs(q.touched) do
    bulk('RPUSH', q.key .. ':facet:' .. f.tenant, f)
    q.ready = q.ready + #f
    if not f.inRing then fresh[#fresh + 1] = f.tenant end
  end
  if #q.touched > 0 then
    enter(q, fresh)
    call('HSET', q.key, 'ready', str(q.ready), 'wanted', q.wanted and '1' or '0')
  end
end
for i = 1, #minutes do age(minutes[i][1], minutes[i][2], minutes[i][3]) end
local names, counts, records = {}, {}, {}
for topic, count in pairs(topics) do names[#names + 1], counts[#counts + 1] = ARGV[aP + topic], count end
local before = gather('HMGET', T .. ':topics', names)
for i = 1, #names do
  local had = tonumber(string.match(before[i] or '0', '^%d+'))
  records[#records + 1], records[#records + 2] = names[i], str(had + counts[i]) .. ' ' .. str(now)
end
bulk('HSET', T .. ':topics', records)
return {now, n0, due(), answers, odd}

-- Make dead letters wait again, or remove them.
-- ARGV  3 uid  4 verb: r wait again, d remove  5 lanes  6 tenant, empty for all
--       7 how many, oldest first; or 0, their count, lane, and their names; then, if operations are to be
--       opened, of each what with, its payload if that is long, its subject
-- Returns how many, and how many of those asked for are left.
if not lane() then return 'lane_missing' end
local q = queue(ARGV[3])
if not q then return 'not_found' end
local verb, lanes, tenant, most = ARGV[4], tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7])
local key = q.key .. ':dead'
if tenant ~= '' then key = q.key .. ':lost:' .. tenant end
local count = most > 0 and 0 or tonumber(ARGV[8])
local asked = most > 0 and call('ZRANGE', key, 0, most - 1) or {unpack(ARGV, 10, 9 + count)}
if q.tracked and verb == 'r' and (most > 0 or #ARGV ~= 9 + 4 * count) then return 'no_openings' end
table.sort(asked, function(a, b) return tonumber(a) < tonumber(b) end)

local names, owners, seen, tenants = {}, {}, {}, {}
local why = gather('HMGET', q.key .. ':why', asked)
for i = 1, #asked do
  local name = asked[i]
  if why[i] and not seen[name] then
    names[#names + 1], seen[name], owners[name] = name, true, deadOf(why[i])
    tenants[#tenants + 1] = tenantOf(owners[name])
    undead(q, name, owners[name])
  end
end

-- An old message of a key comes first again; if the key is blocked, then next.
local function resurrect(name, who)
  local t, at = place(who, name)
  local head = at ~= name and call('HGET', q.key .. ':head', who)
  if not head then return lineUp(q, name, who) end
  if not call('ZSCORE', q.key .. ':heads:' .. t, at) then return behind(q, who, name, true) end
  call('HSET', q.key .. ':head', who, name .. ' ' .. head)
  call('SADD', q.key .. ':lines:' .. t, who)
  ready(q, name, who)
end

-- The newest of a key goes first, so that the oldest ends up as its head.
local function redrive()
  local minutes = {}
  for i = #names, 1, -1 do
    local name = names[i]
    local t = tenantOf(owners[name])
    wait(q, t, 1)
    if q.ordered then
      resurrect(name, owners[name])
    else
      call('ZADD', q.key .. ':back:' .. t, name, name)
      q.back = q.back + 1
    end
    local at = minute(floor(tonumber(name) / lanes))
    minutes[at] = (minutes[at] or 0) + 1
  end
  for at, size in pairs(minutes) do age(q, at, size) end
  for i = 1, #tenants do
    if not q.ordered or call('EXISTS', q.key .. ':heads:' .. tenants[i]) == 1 then admit(q, tenants[i]) end
  end
end

-- Each has another operation, under the next number of the lane's clock.
local function reopen()
  local first, n = {}, math.max(L.n + 1, (now - 1735689600000) * 128) - 1
  for i = count, 1, -1 do first[ARGV[9 + i]] = 9 + count + 3 * i - 2 end
  for i = 1, #names do
    local at = first[names[i]]
    n = n + 1
    local tenant = tenantOf(owners[names[i]])
    local text = struct.pack('<BI2c0', 0, #tenant, tenant) .. ARGV[at]
    tracking().open(q, str(n * lanes + tonumber(ARGV[9])), names[i], now, text, ARGV[at + 1], ARGV[at + 2])
  end
  if #names > 0 then L.n = n end
  tracking().flush(q)
end

if verb == 'r' then
  if q.tracked then reopen() end
  redrive()
else
  drop(q, names, lanes)
  vacate(q, tenants)
end
save(q)
keep()
return {#names, most > 0 and call('ZCARD', key) or 0}

-- Tell the lane of a version of the registry: settings of queues and subscriptions, removed uids.
-- ARGV  3 version  4 count of queues  5 count of removed, then uid, version,
--       max attempts, further settings of each queue, then the removed uids, then uid,
--       version, settings of each subscription
-- Returns the uids of the queues and subscriptions that were removed before.
if not lane() then return 'lane_missing' end
local version, queues, removed = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local past = {}

for i = 1, removed do
  local u = ARGV[5 + 4 * queues + i]
  if call('SADD', T .. ':removed', u) == 1 then
    call('HDEL', T .. ':fired', u)
    local pushed = call('HDEL', T .. ':b:' .. u, 'version') == 1
    if pushed then call('LREM', T .. ':turns', 1, u) end
    if pushed or call('HDEL', T .. ':q:' .. u, 'version') == 1 then
      call('SREM', T .. ':wanted', u)
      call('RPUSH', T .. ':trash', u)
      L.gone = L.gone + 1
    end
  end
end

-- Whether a queue is ordered, or tracked, never changes.
local function ordering(old, new)
  local function of(conf) return conf and string.match(conf, '^%d %d+ (%d)') or '0' end
  local function kept(conf) return conf and string.match(conf, '^%d %d+ %d %d %d+ %d+ %d %d+(.*)$') or '' end
  if of(old) == of(new) and (kept(old) == '') == (kept(new) == '') then return new end
  new = string.gsub(new == '' and '0 0 0 0 0 0 0 0' or new, '^(%d %d+) %d', '%1 ' .. of(old))
  if (kept(old) == '') == (kept(new) == '') then return new end
  return string.sub(new, 1, #new - #kept(new)) .. kept(old)
end

-- New settings may let parked tenants enter, and waiting consumers in.
local function loosen(u)
  local q = load(u)
  if q.parked > 0 then
    q.wake = '*'
    rouse(q)
  end
  if q.wanted and not q.paused and call('LLEN', q.key .. ':ring') > 0 then
    q.wanted = false
    hint('q' .. u)
  end
  save(q)
end

for i = 1, queues do
  local at = 4 * i + 2
  local u, v, max, conf = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], ARGV[at + 3]
  if call('SISMEMBER', T .. ':removed', u) == 1 then
    past[#past + 1] = u
  else
    local there = call('HMGET', T .. ':q:' .. u, 'version', 'conf')
    if (tonumber(there[1]) or -1) <= v then
      if there[1] then conf = ordering(there[2], conf) end
      call('HSET', T .. ':q:' .. u, 'version', v, 'max', max, 'conf', conf)
      if not there[1] then
        -- A long value keeps Redis from packing a hash: a packed one is searched through.
        for _, name in ipairs({':hand', ':leased'}) do call('HSET', T .. ':q:' .. u .. name, '', string.rep('.', 65)) end
      end
      if there[1] and there[2] ~= conf then loosen(u) end
    end
  end
end

-- Whether a subscription is ordered, the first of its flags, never changes.
local function subscribe(u, v, conf)
  local key = T .. ':b:' .. u
  local there = call('HMGET', key, 'version', 'conf')
  if (tonumber(there[1]) or -1) > v then return end
  if there[1] then conf = string.sub(there[2], 1, 1) .. string.sub(conf, 2) end
  call('HSET', key, 'version', v, 'conf', conf)
  local s = batch.sub(u)
  batch.admit(s)
  batch.save(s)
end

for at = 6 + 4 * queues + removed, #ARGV, 3 do
  if call('SISMEMBER', T .. ':removed', ARGV[at]) == 1 then
    past[#past + 1] = ARGV[at]
  else
    subscribe(ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2])
  end
end
L.version = math.max(version, L.version)
keep()
return past

-- Make batches ready at once: those named, or the oldest dead ones.
-- ARGV  3 uid  4 most dead ones, then names
-- Returns how many, and how many dead ones are left.
if not lane() then return 'lane_missing' end
local s = batch.sub(ARGV[3])
if not s then return 'no_subscription' end
local names, most, done = {unpack(ARGV, 5)}, tonumber(ARGV[4]), 0
if most > 0 then names = call('ZRANGE', s.key .. ':dead', 0, most - 1) end
for i = 1, #names do
  local b = batch.get(s, names[i])
  if b and (b.state == 'E' or b.state == 'D') then
    local dead = b.state == 'D'
    batch.leave(s, b)
    if dead then b.attempts = 0 end
    batch.come(s, b, 'R', 0)
    done = done + 1
  end
end
batch.admit(s)
batch.save(s)
keep()
return {done, call('ZCARD', s.key .. ':dead')}

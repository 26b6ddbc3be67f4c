-- Cancel an operation, or ask for it if it is running.
-- ARGV  3 number
-- Returns it; 'no_operation' if there is none, 'finished' if it has.
if not lane() then return 'lane_missing' end
local o = view({ARGV[3]})[1]
if not o or expired(o) then return 'no_operation' end
if o.ended ~= '' then return 'finished' end
local q = load(o.uid)
tracking().look(q, {o.message})
local n = tracking().note(q, o.message)
if o.status == 'Q' then
  tracking().finish(q, o.message, 'C', n.attempts, n.started)
  local left = tracking().note(q, o.message)
  left.gone, left.number = true, n.number
  q.cancelled = q.cancelled + 1
elseif not n.wish then
  n.wish = true
  tracking().moved(q, o.number)
end
tracking().flush(q)
keep()
due()
return show(view({ARGV[3]}))

-- Tell how far a leased message's work has come.
-- ARGV  3 number  4 name of the message  5 token  6 percent  7 note
-- Returns 1; 'lost' if the operation is not of this message, or that is not leased under the token.
if not lane() then return 'lane_missing' end
local o = view({ARGV[3]})[1]
if not o or o.ended ~= '' or o.message ~= ARGV[4] then return 'lost' end
local q = queue(o.uid)
local record = q and call('HGET', q.key .. ':leased', o.message)
if not record then return 'lost' end
local deadline, token, attempt = struct.unpack('<dc16I4', record)
if token ~= ARGV[5] or now >= deadline then return 'lost' end
tracking().look(q, {o.message})
local n, percent = tracking().note(q, o.message), tonumber(ARGV[6])
n.percent = n.told == attempt and math.max(n.percent, percent) or percent
n.told, n.text = attempt, ARGV[7]
tracking().moved(q, o.number)
tracking().flush(q)
keep()
return 1

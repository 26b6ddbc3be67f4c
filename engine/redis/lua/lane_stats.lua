-- Read the lane's counters.
-- Returns version, published, duplicates, unrouted, dropped, clock offset in ms, held events.
local m = lane('v', 'published', 'duplicates', 'unrouted', 'dropped')
if not m then return 'lane_missing' end
local reply = {}
for i = 5, 9 do reply[#reply + 1] = tonumber(m[i]) or 0 end
reply[#reply + 1] = off
reply[#reply + 1] = call('HLEN', T .. ':held')
return reply

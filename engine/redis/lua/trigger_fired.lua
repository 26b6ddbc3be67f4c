-- Tell how often something fired, and when last.
-- ARGV  3 uid
-- Returns both; nothing if it never did.
if not lane() then return 'lane_missing' end
local record = call('HGET', T .. ':fired', ARGV[3])
if not record then return {} end
local count, last = struct.unpack('<dd', record)
return {count, last}

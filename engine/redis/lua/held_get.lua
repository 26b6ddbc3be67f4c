-- Find the delayed event that has an id.
-- ARGV  3 tenant, NUL, id
-- Returns its name, due time and body; 'not_held' if there is none.
if not lane() then return 'lane_missing' end
local name = call('ZREVRANGE', T .. ':alias:' .. ARGV[3], 0, 0)[1]
if not name then return 'not_held' end
local record = call('HGET', T .. ':held', name)
local due, _, _, at = struct.unpack('<dI2c0I2c0', record)
return {name, str(due), string.sub(record, at + 1)}

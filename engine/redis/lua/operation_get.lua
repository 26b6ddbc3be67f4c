-- Show an operation.
-- ARGV  3 number  4 1 to be told of its next change
-- Returns it; 'no_operation' if there is none.
if not lane() then return 'lane_missing' end
local o = view({ARGV[3]})[1]
if not o or expired(o) then return 'no_operation' end
if ARGV[4] == '1' and o.ended == '' then call('SADD', T .. ':ow', o.number) end
return show({o})

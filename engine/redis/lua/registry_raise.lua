-- Move the registry's version past one that a lane remembers; whoever has seen
-- an older one must read everything again.
-- ARGV  3 version
-- Returns the version then.
local m = lane('version')
if not m then return 'lane_missing' end
local version, past = tonumber(m[3]), tonumber(ARGV[3]) + 1
if version < past then
  version = past
  keep('version', version, 'floor', version)
  hint('r')
end
return version

-- Tell which commands that the scripts use the user may not run on the keys of
-- a lane: a command that is refused in the middle of a script would leave half
-- of its work.
-- ARGV  commands that take a key
-- Returns the commands that are forbidden.
local forbidden = {}
for i = 1, #ARGV do
  local name = ARGV[i]
  if not (redis.acl_check_cmd(name, KEYS[1] .. ':x', 'x', '1') or redis.acl_check_cmd(name, KEYS[1] .. ':x', 'x') or redis.acl_check_cmd(name, KEYS[1] .. ':x')) then
    forbidden[#forbidden + 1] = name
  end
end
if not redis.acl_check_cmd('TIME') then forbidden[#forbidden + 1] = 'TIME' end
if not redis.acl_check_cmd('SPUBLISH', KEYS[1] .. ':hint', '') then forbidden[#forbidden + 1] = 'SPUBLISH' end
return forbidden

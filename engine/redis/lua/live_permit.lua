-- Tell whether the user may publish events for any client, and ask who listens.
-- ARGV  1 what the channels begin with
-- Returns 1 or 0.
local may = redis.acl_check_cmd('PUBLISH', ARGV[1] .. 'a:b:c', '') and redis.acl_check_cmd('PUBSUB', 'NUMPAT')
  and redis.acl_check_cmd('PUBSUB', 'CHANNELS', ARGV[1] .. '*')
return may and 1 or 0

package redis

import (
	"context"

	"github.com/redis/rueidis"
)

// readPublishing decides whether events are published on the channels of their
// addresses, for any client of the server: unless it is set, one server publishes and a
// Cluster, where every master would pay for it, does not. On a Cluster nobody can
// tell who listens: a client may be connected to any of its servers.
func (e *Engine) readPublishing(ctx context.Context) {
	cluster := e.client.Mode() == rueidis.ClientModeCluster
	on, always, prefix := !cluster, "0", e.keys.addressChannels()
	if cluster {
		always = "1"
	}
	if set := e.options.RedisPublish; set != nil {
		on = *set
	}
	if !on {
		return
	}
	reply, err := e.run(ctx, &e.scripts.permitPublish, e.keys.control(), prefix)
	if err == nil && intOf(reply[0]) == 0 {
		e.log.Warn("the Redis user may not use PUBLISH and PUBSUB on the channels of live events: no other client hears of them", "channels", prefix+"*")
		return
	}
	e.publishing = []string{always, prefix}
}

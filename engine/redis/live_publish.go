package redis

import (
	"context"
	"encoding/binary"

	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace"
)

// publishing says whether events are published on the channels of their
// addresses, for any client of the server.
type publishing struct {
	on     bool
	always bool   // nobody can tell whether somebody listens
	prefix string // of the channels
}

// readPublishing decides it: unless it is set, one server publishes and a Cluster,
// where every master would pay for it, does not.
func (e *Engine) readPublishing(ctx context.Context) {
	cluster := e.client.Mode() == rueidis.ClientModeCluster
	e.publishing = publishing{on: !cluster, always: cluster, prefix: e.keys.addressChannels()}
	if set := e.options.RedisPublish; set != nil {
		e.publishing.on = *set
	}
	if !e.publishing.on {
		return
	}
	reply, err := e.run(ctx, &e.scripts.permitPublish, e.keys.control(), e.publishing.prefix)
	if err == nil && intOf(reply[0]) == 0 {
		e.log.Warn("the Redis user may not use PUBLISH and PUBSUB on the channels of live events: no other client hears of them", "channels", e.publishing.prefix+"*")
		e.publishing.on = false
	}
}

// channels are those on which the events of a call are published.
type channels struct {
	publishing
	names table
	of    []byte // by event the number of its channel; 0 if it has none
}

// channel notes the channel of an event.
func (p *commitArgs) channel(ev *millrace.CommitEvent) {
	c := &p.channels
	if !c.on {
		return
	}
	n := uint32(0)
	if ev.Type != "" {
		b := append(append(p.scratch[:0], c.prefix...), ev.Tenant...)
		b = append(append(append(b, ':'), ev.Topic...), ':')
		p.scratch = append(b, ev.Type...)
		n, _ = c.names.of(p.scratch, func() string { return string(p.scratch) })
	}
	c.of = binary.LittleEndian.AppendUint32(c.of, n)
}

// appendChannels adds to the arguments what the script needs to publish.
func (p *commitArgs) appendChannels(args []string) []string {
	c := &p.channels
	if !c.on {
		return args
	}
	always := "0"
	if c.always {
		always = "1"
	}
	return append(append(args, always, rueidis.BinaryString(c.of)), c.names.names...)
}

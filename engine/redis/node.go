package redis

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/millrace-dev/millrace"
)

// nodeRecord is what is stored of a node beside when it was seen.
type nodeRecord struct {
	Host    string   `json:"host"`
	Version string   `json:"version"`
	Roles   []string `json:"roles"`
	Started int64    `json:"started_ms"`
}

// Beat records that a node is alive and returns all that are.
func (e *Engine) Beat(ctx context.Context, n millrace.Node, ttl time.Duration) ([]millrace.Node, error) {
	record, err := json.Marshal(nodeRecord{n.Host, n.Version, n.Roles, n.StartedAt.UnixMilli()})
	if err != nil {
		return nil, millrace.Wrap(millrace.CodeInternal, err, "encode the node")
	}
	reply, err := e.runControl(ctx, &e.scripts.nodeBeat, n.ID, string(record), span(ttl))
	if err != nil {
		return nil, err
	}
	nodes := make([]millrace.Node, 0, len(reply)/3)
	for ; len(reply) >= 3; reply = reply[3:] {
		var r nodeRecord
		if err := json.Unmarshal([]byte(textOf(reply[2])), &r); err != nil {
			return nil, millrace.Wrap(millrace.CodeInternal, err, "the store holds a node that cannot be read")
		}
		nodes = append(nodes, millrace.Node{
			ID: textOf(reply[0]), Host: r.Host, Version: r.Version, Roles: r.Roles,
			StartedAt: moment(r.Started), SeenAt: moment(intOf(reply[1])),
		})
	}
	slices.SortFunc(nodes, func(a, b millrace.Node) int { return cmp.Compare(a.ID, b.ID) })
	return nodes, nil
}

// Leave forgets a node at once.
func (e *Engine) Leave(ctx context.Context, id string) error {
	_, err := e.runControl(ctx, &e.scripts.nodeLeave, id)
	return err
}

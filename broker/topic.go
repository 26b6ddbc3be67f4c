package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-dev/millrace"
)

// Topics is what is done with topics. It is a millrace.TopicService.
type Topics struct{ b *Broker }

var _ millrace.TopicService = Topics{}

// Topics is what is done with topics.
func (b *Broker) Topics() millrace.TopicService { return Topics{b} }

// topicSpec is the stored form of what is defined of a topic.
type topicSpec struct {
	Publisher string `json:"publisher"`
}

// Get returns what is known of a topic.
func (s Topics) Get(ctx context.Context, name string) (millrace.Topic, error) {
	if err := s.b.gate.enter(); err != nil {
		return millrace.Topic{}, err
	}
	defer s.b.gate.leave()
	if err := topicFault(name); err != nil {
		return millrace.Topic{}, err
	}
	topics, h, err := s.gather(ctx)
	if err != nil {
		return millrace.Topic{}, err
	}
	if _, ok := topics[name]; !ok {
		return millrace.Topic{}, millrace.Errorf(millrace.CodeNotFound, "there is no such topic")
	}
	return h.subscribed(topics, name)[0], nil
}

func topicFault(name string) error {
	if m := millrace.NameFault(name); m != "" {
		return millrace.Invalid([]millrace.Fault{{Location: "topic", Message: m}})
	}
	return nil
}

// List returns topics by name; see millrace.TopicService.
func (s Topics) List(ctx context.Context, page millrace.Page) ([]millrace.Topic, string, error) {
	if err := s.b.gate.enter(); err != nil {
		return nil, "", err
	}
	defer s.b.gate.leave()
	topics, h, err := s.gather(ctx)
	if err != nil {
		return nil, "", err
	}
	names, next, err := pageOf(slices.Sorted(maps.Keys(topics)), page)
	if err != nil {
		return nil, "", err
	}
	return h.subscribed(topics, names...), next, nil
}

// gather adds up what the lanes have seen of each topic, and who owns it, but not who subscribes to it.
func (s Topics) gather(ctx context.Context) (map[string]millrace.Topic, *house, error) {
	h, err := s.b.registry.reload(ctx)
	if err != nil {
		return nil, nil, err
	}
	topics := map[string]millrace.Topic{}
	for name, d := range h.topics {
		var spec topicSpec
		if err := json.Unmarshal(d.Spec, &spec); err != nil {
			return nil, nil, fmt.Errorf("read the definition of topic %s: %w", name, err)
		}
		topics[name] = millrace.Topic{TopicStats: millrace.TopicStats{Name: name}, Publisher: spec.Publisher}
	}
	for lane := range s.b.identity.Lanes {
		seen, err := s.b.engine.Topics(ctx, lane)
		if err != nil {
			return nil, nil, err
		}
		for _, t := range seen {
			sum := topics[t.Name]
			sum.Name = t.Name
			sum.Events += t.Events
			if t.LastEventAt.After(sum.LastEventAt) {
				sum.LastEventAt = t.LastEventAt
			}
			topics[t.Name] = sum
		}
	}
	return topics, h, nil
}

// subscribed is some of the topics, with the names of the subscriptions that name them.
func (h *house) subscribed(topics map[string]millrace.Topic, names ...string) []millrace.Topic {
	subscribers := map[string][]string{}
	for _, s := range h.subs {
		for _, topic := range s.spec.Topics {
			subscribers[topic] = append(subscribers[topic], s.name)
		}
	}
	list := make([]millrace.Topic, len(names))
	for i, name := range names {
		list[i] = topics[name]
		list[i].Subscriptions = append([]string{}, subscribers[name]...)
		slices.Sort(list[i].Subscriptions)
	}
	return list
}

// Put hands a topic to a publisher; see millrace.TopicService.
func (s Topics) Put(ctx context.Context, name, publisher string) (millrace.Topic, error) {
	if err := s.b.gate.enter(); err != nil {
		return millrace.Topic{}, err
	}
	defer s.b.gate.leave()
	if err := topicFault(name); err != nil {
		return millrace.Topic{}, err
	}
	if m := millrace.NameFault(publisher); publisher != "" && m != "" {
		return millrace.Topic{}, millrace.Invalid([]millrace.Fault{{Location: "publisher", Message: m}})
	}
	text, err := json.Marshal(topicSpec{Publisher: publisher})
	if err != nil {
		return millrace.Topic{}, fmt.Errorf("write the definition of topic %s: %w", name, err)
	}
	if err := s.define(ctx, millrace.Definition{Kind: millrace.KindTopic, Name: name, Spec: text}); err != nil {
		return millrace.Topic{}, err
	}
	topics, h, err := s.gather(ctx)
	if err != nil {
		return millrace.Topic{}, err
	}
	return h.subscribed(topics, name)[0], nil
}

// define writes a topic's definition over the one that is there.
func (s Topics) define(ctx context.Context, d millrace.Definition) error {
	return untilStill(func() error {
		h, err := s.b.registry.reload(ctx)
		if err != nil {
			return err
		}
		old, exists := h.topics[d.Name]
		switch d.UID = old.UID; {
		case !exists && d.Deleted:
			return nil
		case !exists:
			d.UID = newUID()
		}
		_, err = s.b.engine.Define(ctx, d, old.Version)
		return err
	})
}

// Delete forgets a topic's record and claim; see millrace.TopicService.
func (s Topics) Delete(ctx context.Context, name string) error {
	if _, err := s.Get(ctx, name); err != nil {
		return err
	}
	if err := s.b.gate.enter(); err != nil {
		return err
	}
	defer s.b.gate.leave()
	if err := s.define(ctx, millrace.Definition{Kind: millrace.KindTopic, Name: name, Deleted: true, Spec: []byte("{}")}); err != nil {
		return err
	}
	for lane := range s.b.identity.Lanes {
		if err := s.b.engine.ForgetTopic(ctx, lane, name); err != nil {
			return err
		}
	}
	return nil
}

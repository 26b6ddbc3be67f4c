package redis_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/engine/redis"
	"github.com/millrace-dev/millrace/internal/redistest"
)

// listen is a client of the server that knows nothing of Millrace. It stands when it returns.
func listen(t testing.TB, addr string, subscribe func(rueidis.Builder) rueidis.Completed) <-chan rueidis.PubSubMessage {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	heard, stands := make(chan rueidis.PubSubMessage, 10000), make(chan struct{}, 10)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { stands <- struct{}{} })
	go func() {
		defer close(done)
		_ = c.Receive(hooked, subscribe(c.B()), func(m rueidis.PubSubMessage) { heard <- m })
	}()
	<-stands
	t.Cleanup(func() { cancel(); <-done; c.Close() })
	return heard
}

func pattern(p string) func(rueidis.Builder) rueidis.Completed {
	return func(b rueidis.Builder) rueidis.Completed { return b.Psubscribe().Pattern(p).Build() }
}

func hear(t *testing.T, heard <-chan rueidis.PubSubMessage) rueidis.PubSubMessage {
	t.Helper()
	select {
	case m := <-heard:
		return m
	case <-time.After(20 * time.Second):
		t.Fatal("nothing is heard")
		return rueidis.PubSubMessage{}
	}
}

// silence fails if anything else is heard before a last event.
func silence(t *testing.T, b *broker.Broker, heard <-chan rueidis.PubSubMessage, last millrace.Event) {
	t.Helper()
	send(t, b, last)
	if m := hear(t, heard); !strings.Contains(m.Message, `"id":"`+last.ID+`"`) {
		t.Errorf("heard %+v", m)
	}
}

func serve(t *testing.T, e *redis.Engine) *broker.Broker {
	t.Helper()
	b, err := broker.New(t.Context(), e, broker.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

func brokerAt(t *testing.T, url string, o millrace.EngineOptions) *broker.Broker {
	t.Helper()
	o.Logger = quiet
	e, err := redis.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, e)
}

func send(t *testing.T, b *broker.Broker, events ...millrace.Event) []millrace.Published {
	t.Helper()
	done, err := b.Publish(t.Context(), events...)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// someText is a text with letters of all kinds and what JSON must escape.
func someText(r *rand.Rand, most int) string {
	letters := []string{"a", "Z", "0", `"`, `\`, "/", "<", "&", "ü", "\u2028", "𝄞", "\ufffd", " ", ":", "{", "]", "'", "%", "\u00ff"}
	var b strings.Builder
	for range r.IntN(most) {
		b.WriteString(letters[r.IntN(len(letters))])
	}
	return b.String()
}

func someEvent(r *rand.Rand, i int) millrace.Event {
	e := millrace.Event{
		ID: fmt.Sprint(i, someText(r, 10)), Topic: "page", Type: fmt.Sprint("t", r.IntN(3)), Tenant: fmt.Sprint("tenant.", r.IntN(3)),
		Time: time.UnixMilli(r.Int64N(253402300799999+62135596800000) - 62135596800000).UTC(),
	}
	if r.IntN(2) == 0 {
		e.Key = someText(r, 8)
	}
	for range r.IntN(4) {
		if e.Attributes == nil {
			e.Attributes = map[string]string{}
		}
		e.Attributes[fmt.Sprint("a_", r.IntN(9))] = someText(r, 12)
	}
	someData(r, &e)
	return e
}

func someData(r *rand.Rand, e *millrace.Event) {
	switch r.IntN(6) {
	case 0:
	case 1:
		e.Data = []byte("{ \"n\" :\t1.0e2,\r\n \"m\":[true,null,\"\\u0000\\/\\uD834\\uDD1E\"] }")
	case 2:
		e.ContentType, e.Data = "application/Vnd.x+JSON ; charset=utf-8", []byte(`[]`)
	case 3:
		e.ContentType = "text/plain; a=\"" + `q\"` + "\""
	default:
		e.ContentType = "application/octet-stream"
		e.Data = make([]byte, r.IntN(70))
		for i := range e.Data {
			e.Data[i] = byte(r.Uint32())
		}
	}
}

// rawData is an event's data as its JSON has it, byte for byte.
func rawData(t *testing.T, text []byte) string {
	t.Helper()
	var e struct {
		Data   json.RawMessage `json:"data"`
		Base64 json.RawMessage `json:"data_base64"`
	}
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return string(e.Data) + string(e.Base64)
}

func TestWhatIsPublishedForAnyClientIsTheEventAsTheWireHasIt(t *testing.T) {
	s := redistest.Single(t)
	b := brokerAt(t, s.URL(), millrace.EngineOptions{Lanes: 2})
	heard := listen(t, s.Addr(), pattern("millrace:live:*:page:*"))
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 30 {
		var events []millrace.Event
		for i := range 20 {
			events = append(events, someEvent(r, 20*round+i))
		}
		got := map[string]rueidis.PubSubMessage{}
		done := send(t, b, events...)
		for range events {
			m := hear(t, heard)
			e, err := api.DecodeEvent([]byte(m.Message))
			if err != nil {
				t.Fatalf("%v: %s", err, m.Message)
			}
			got[e.ID] = m
		}
		for i := range events {
			e, m := events[i], got[events[i].ID]
			if want := "millrace:live:" + e.Address(); m.Channel != want {
				t.Errorf("heard on %s, want %s", m.Channel, want)
			}
			e.Seq, e.Prev = done[i].Seq, done[i].Prev
			sameJSON(t, m.Message, e)
		}
	}
}

// sameJSON fails unless a text is the event as the wire has it. When it was recorded
// is read from the text, and must be a time.
func sameJSON(t *testing.T, text string, e millrace.Event) {
	t.Helper()
	read, err := api.DecodeEvent([]byte(text))
	if err != nil || time.Since(read.RecordedAt).Abs() > time.Hour {
		t.Fatalf("recorded at %v, %v: %s", read.RecordedAt, err, text)
	}
	e.RecordedAt = read.RecordedAt
	want := api.AppendEvent(nil, &e)
	var g, w any
	if err := json.Unmarshal([]byte(text), &g); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if err := json.Unmarshal(want, &w); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(g, w) {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	if got, want := rawData(t, []byte(text)), rawData(t, want); got != want {
		t.Errorf("data %q, want %q", got, want)
	}
}

func TestOnlyWhatIsStampedIsPublishedForAnyClient(t *testing.T) {
	s := redistest.Single(t)
	b := brokerAt(t, s.URL(), millrace.EngineOptions{})
	byPattern := listen(t, s.Addr(), pattern("millrace:live:*"))
	exact := listen(t, s.Addr(), func(b rueidis.Builder) rueidis.Completed {
		return b.Subscribe().Channel("millrace:live:acme:page:viewed").Build()
	})
	viewed := millrace.Event{ID: "a-1", Topic: "page", Type: "viewed", Tenant: "acme"}
	send(t, b, viewed)
	send(t, b, viewed) // a duplicate
	send(t, b, millrace.Event{ID: "late", Topic: "page", Type: "viewed", Tenant: "acme", Delay: time.Hour})
	for _, heard := range []<-chan rueidis.PubSubMessage{byPattern, exact} {
		if m := hear(t, heard); m.Channel != "millrace:live:acme:page:viewed" || !strings.Contains(m.Message, `"a-1"`) {
			t.Errorf("heard %+v", m)
		}
	}
	send(t, b, millrace.Event{ID: "b-1", Topic: "page", Type: "viewed", Tenant: "b"})
	if m := hear(t, byPattern); m.Channel != "millrace:live:b:page:viewed" {
		t.Errorf("heard %+v", m)
	}
	last := viewed
	last.ID = "last"
	silence(t, b, exact, last)
	if m := hear(t, byPattern); !strings.Contains(m.Message, `"last"`) {
		t.Errorf("heard %+v", m)
	}
}

func TestAListenerToOneAddressAmongManyIsHeard(t *testing.T) {
	s := redistest.Single(t)
	b := brokerAt(t, s.URL(), millrace.EngineOptions{})
	heard := listen(t, s.Addr(), func(b rueidis.Builder) rueidis.Completed {
		return b.Subscribe().Channel("millrace:live:t777:page:viewed").Channel("other").Build()
	})
	events := make([]millrace.Event, 1000)
	for i := range events {
		events[i] = millrace.Event{Topic: "page", Type: "viewed", Tenant: fmt.Sprint("t", i)}
	}
	send(t, b, events...)
	if m := hear(t, heard); m.Channel != "millrace:live:t777:page:viewed" {
		t.Errorf("heard %+v", m)
	}
	silence(t, b, heard, millrace.Event{ID: "last", Topic: "page", Type: "viewed", Tenant: "t777"})
}

func TestEventsAreNotPublishedForAnyClientWhenThatIsOff(t *testing.T) {
	s := redistest.Single(t)
	off, on := false, true
	silent := brokerAt(t, s.URL(), millrace.EngineOptions{RedisPublish: &off})
	heard := listen(t, s.Addr(), pattern("millrace:live:*"))
	send(t, silent, millrace.Event{ID: "unheard", Topic: "page", Type: "viewed"})
	silence(t, brokerAt(t, s.URL(), millrace.EngineOptions{RedisPublish: &on}), heard, millrace.Event{ID: "heard", Topic: "page", Type: "viewed"})
}

func TestOnAClusterEventsArePublishedForAnyClientOnlyIfAsked(t *testing.T) {
	c := redistest.Cluster(t, 3)
	on := true
	silent, loud := brokerAt(t, c.URL(), millrace.EngineOptions{Lanes: 8}), brokerAt(t, c.URL(), millrace.EngineOptions{RedisPublish: &on})
	heard := listen(t, c.Servers[2].Addr(), pattern("millrace:live:*:page:*")) // one server hears of all lanes
	send(t, silent, millrace.Event{ID: "unheard", Topic: "page", Type: "viewed"})
	for i := range 32 {
		id := fmt.Sprint("e", i)
		send(t, loud, millrace.Event{ID: id, Topic: "page", Type: "viewed", Data: []byte(`{"n":1}`)})
		if m := hear(t, heard); !strings.Contains(m.Message, `"id":"`+id+`"`) {
			t.Fatalf("heard %+v, want %s", m, id)
		}
	}
}

func TestTheCommandLineOfRedisPrintsEachEvent(t *testing.T) {
	path, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Skip("there is no redis-cli")
	}
	s := redistest.Single(t)
	b := brokerAt(t, s.URL(), millrace.EngineOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "-p", fmt.Sprint(s.Port()), "PSUBSCRIBE", "millrace:live:*:page:*")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = cmd.Wait() }()
	lines := bufio.NewScanner(out)
	for range 3 { // psubscribe, the pattern, 1
		if !lines.Scan() {
			t.Fatal("redis-cli said nothing")
		}
	}
	send(t, b, millrace.Event{ID: "no page", Topic: "orders", Type: "created"}, millrace.Event{ID: "p-1", Topic: "page", Type: "viewed", Tenant: "acme", Data: []byte(`{"n":1}`)})
	var got []string
	for len(got) < 4 && lines.Scan() {
		got = append(got, lines.Text())
	}
	want := []string{"pmessage", "millrace:live:*:page:*", "millrace:live:acme:page:viewed"}
	if len(got) != 4 || !reflect.DeepEqual(got[:3], want) {
		t.Fatalf("printed %q", got)
	}
	if e, err := api.DecodeEvent([]byte(got[3])); err != nil || e.ID != "p-1" || !bytes.Equal(e.Data, []byte(`{"n":1}`)) {
		t.Errorf("printed %s: %v", got[3], err)
	}
}

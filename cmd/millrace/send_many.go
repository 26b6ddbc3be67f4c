package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
	"github.com/millrace-dev/millrace/client"
)

// sendWithin is how long the sending of a batch may take, with what is tried again.
const sendWithin = 40 * time.Second

// sendMany are the flags of send-many, and how far it has got.
type sendMany struct {
	topic, tenant, idPrefix string
	batch                   int

	line, sent, duplicates, unrouted int
}

func newSendMany(r *remote) *cobra.Command {
	s := &sendMany{}
	cmd := &cobra.Command{
		Use:   "send-many FILE",
		Short: "Publish many events, one JSON object a line",
		Long: "Publish many events, one JSON object a line, from a file or, with -, from standard input.\n" +
			"A line is an event as `POST /v1/topics/{topic}/events` takes it, and may name its topic.\n" +
			"Lines are sent in their order. A file is checked whole before anything is sent. Lines with\n" +
			"an id, and all with --id-prefix, can be sent again without harm.",
		Example: "  millrace send-many orders.jsonl --topic orders\n" +
			"  millrace tail --json | millrace send-many - --server http://127.0.0.1:7071",
		Args: exactArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			began := time.Now()
			if err := s.send(cmd, c, args[0]); err != nil {
				return err
			}
			return s.report(cmd, r, time.Since(began))
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.topic, "topic", "", "topic of the lines that name none")
	f.StringVar(&s.tenant, "tenant", "", "tenant of the lines that name none")
	f.StringVar(&s.idPrefix, "id-prefix", "", "line N that has no id gets the id PREFIX.N")
	f.IntVar(&s.batch, "batch", 500, "events of one request, up to 1000")
	return cmd
}

// send publishes every line of a file or of standard input.
func (s *sendMany) send(cmd *cobra.Command, c *client.Client, name string) error {
	if s.batch < 1 || s.batch > millrace.MaxEvents {
		return usagef("--batch must be 1 to %d", millrace.MaxEvents)
	}
	if name == "-" {
		return s.stream(cmd.Context(), c, cmd.InOrStdin(), 0, cmd.ErrOrStderr())
	}
	file, err := os.Open(name)
	if err != nil {
		return &usageError{fmt.Errorf("open the lines: %w", err)}
	}
	defer func() { _ = file.Close() }() // it was only read
	if err := s.checkAll(file); err != nil {
		return err
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("read the lines again: %w", err)
	}
	return s.stream(cmd.Context(), c, file, size, cmd.ErrOrStderr())
}

// checkAll reads every line and names the first faults, so that a file is sent whole or not at all.
func (s *sendMany) checkAll(in io.Reader) error {
	const enough = 10
	var faults []error
	check := &sendMany{topic: s.topic, tenant: s.tenant, idPrefix: s.idPrefix}
	err := check.each(in, func(_ millrace.Event, _ int, err error) error {
		if err != nil {
			faults = append(faults, err)
		}
		if len(faults) == enough {
			return errors.New("there may be more")
		}
		return nil
	})
	if err != nil {
		faults = append(faults, err)
	}
	if len(faults) > 0 {
		return hint(&usageError{errors.Join(faults...)}, "Nothing was sent.")
	}
	return nil
}

// stream sends lines as they are read. Of a file, whose size is known, batches are as large as
// they may be; of standard input nothing that was read waits for more to come.
func (s *sendMany) stream(ctx context.Context, c *client.Client, in io.Reader, size int64, stderr io.Writer) error {
	bar := newProgress(stderr, size)
	defer bar.done()
	var batch []millrace.Event
	bytes := 0
	flush := func() error {
		n := bytes
		err := s.publish(ctx, c, batch)
		batch, bytes = batch[:0], 0
		bar.add(s.sent, n)
		return err
	}
	goOn := func() error { return cmp.Or(flush(), ctx.Err()) }
	lines := &eager{in: in, before: goOn}
	if size > 0 {
		lines.before = ctx.Err
	}
	err := s.each(lines, func(e millrace.Event, n int, err error) error {
		if err != nil {
			return errors.Join(flush(), err)
		}
		batch = append(batch, e)
		bytes += n
		if len(batch) == s.batch || bytes >= millrace.MaxRequestSize/2 {
			return goOn()
		}
		return nil
	})
	err = cmp.Or(lines.stopped, err)
	if err = errors.Join(err, flush()); err != nil {
		return hint(err, fmt.Sprintf("%d events were sent before that. %s", s.sent, s.again()))
	}
	return nil
}

// eager is a reader that does something before it waits for more.
type eager struct {
	in      io.Reader
	before  func() error
	stopped error // what before said
}

func (r *eager) Read(p []byte) (int, error) {
	if r.stopped = r.before(); r.stopped != nil {
		return 0, r.stopped
	}
	return r.in.Read(p)
}

func (s *sendMany) again() string {
	if s.idPrefix != "" {
		return "Sending all lines again with the same --id-prefix stores none twice, within the time that ids are remembered."
	}
	return "Lines with an id can be sent again without harm; the others would be stored twice (--id-prefix prevents that)."
}

// publish sends a batch. What was read is sent also if the user has stopped the command meanwhile.
func (s *sendMany) publish(ctx context.Context, c *client.Client, batch []millrace.Event) error {
	if len(batch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendWithin)
	defer cancel()
	results, err := c.Publish(ctx, batch...)
	var partly *millrace.Error
	if errors.As(err, &partly) && partly.Code == millrace.CodePartlyCommitted {
		results = partly.Events
	}
	for _, p := range results {
		switch {
		case p.Err != nil:
			continue
		case p.Duplicate:
			s.duplicates++
		case p.Sinks == 0 && p.DueAt.IsZero():
			s.unrouted++
		}
		s.sent++
	}
	return err
}

// each hands every line to f as an event, with its length, or with what is wrong with it.
func (s *sendMany) each(in io.Reader, f func(millrace.Event, int, error) error) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), millrace.MaxRequestSize)
	for lines.Scan() {
		s.line++
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		e, err := s.event(bytes.Clone(text))
		if err != nil {
			err = fmt.Errorf("line %d: %w", s.line, err)
		}
		if err := f(e, len(lines.Bytes())+1, err); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read line %d: %w", s.line+1, err)
	}
	return nil
}

// event reads one line. What was stored before, as tail shows it, may be sent again: the
// stamps it got then are left out.
func (s *sendMany) event(text []byte) (millrace.Event, error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(text, &members); err != nil {
		return millrace.Event{}, errors.New("is not a JSON object")
	}
	topic := s.topic
	if given, ok := members["topic"]; ok {
		if err := json.Unmarshal(given, &topic); err != nil {
			return millrace.Event{}, errors.New("topic must be a text")
		}
	}
	if topic == "" {
		return millrace.Event{}, errors.New("names no topic, and neither does --topic")
	}
	for _, stamp := range []string{"topic", "recorded_at", "seq", "prev"} {
		delete(members, stamp)
	}
	text, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return millrace.Event{}, err
	}
	events, err := api.DecodePublish(text, api.PublishPath{Topic: topic})
	if err != nil || len(events) != 1 {
		return millrace.Event{}, err
	}
	e := events[0]
	if e.Tenant == "" {
		e.Tenant = s.tenant
	}
	if e.ID == "" && s.idPrefix != "" {
		e.ID = s.idPrefix + "." + strconv.Itoa(s.line)
	}
	if faults := e.Faults(""); len(faults) > 0 {
		return e, millrace.Invalid(faults)
	}
	return e, nil
}

// report says what was sent.
func (s *sendMany) report(cmd *cobra.Command, r *remote, took time.Duration) error {
	rate := float64(s.sent) / max(took.Seconds(), 1e-3)
	if r.json {
		return printJSON(cmd.OutOrStdout(), fmt.Appendf(nil, `{"lines":%d,"sent":%d,"duplicates":%d,"unrouted":%d,"seconds":%.3f,"per_second":%.0f}`,
			s.line, s.sent, s.duplicates, s.unrouted, took.Seconds(), rate))
	}
	return table(cmd.OutOrStdout(), [][]string{
		{"SENT", "DUPLICATES", "UNROUTED", "SECONDS", "PER SECOND"},
		{strconv.Itoa(s.sent), strconv.Itoa(s.duplicates), strconv.Itoa(s.unrouted), fmt.Sprintf("%.1f", took.Seconds()), fmt.Sprintf("%.0f", rate)},
	})
}

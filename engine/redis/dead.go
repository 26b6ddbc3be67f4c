package redis

import (
	"context"
	"encoding/binary"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace"
)

// Peek shows waiting messages in the order in which they would be served.
func (e *Engine) Peek(ctx context.Context, lane int, p millrace.Peek) ([]millrace.QueuedMessage, error) {
	reply, err := e.runLane(ctx, &e.scripts.peek, lane, timeless,
		p.Queue, p.Tenant, strconv.Itoa(min(p.Limit, millrace.MaxPage)), strconv.Itoa(pageBytes))
	if err != nil {
		return nil, err
	}
	var messages []millrace.QueuedMessage
	for ; len(reply) >= 4; reply = reply[4:] {
		m, err := e.queued(reply[0], reply[3])
		if err != nil {
			return nil, err
		}
		m.Tenant, m.Attempts = textOf(reply[1]), int(intOf(reply[2]))
		messages = append(messages, m)
	}
	return messages, nil
}

// pageBytes is how much one page of messages holds; the first is given whatever its size.
const pageBytes = 64 << 20

// Dead lists dead letters by name.
func (e *Engine) Dead(ctx context.Context, lane int, p millrace.DeadPage) ([]millrace.QueuedMessage, error) {
	reply, err := e.runLane(ctx, &e.scripts.deadList, lane, timeless,
		p.Queue, p.Tenant, strconv.FormatUint(p.After, 10), strconv.Itoa(min(p.Limit, millrace.MaxPage)), strconv.Itoa(pageBytes))
	if err != nil {
		return nil, err
	}
	var messages []millrace.QueuedMessage
	for ; len(reply) >= 3; reply = reply[3:] {
		m, err := e.queued(reply[0], reply[2])
		if err != nil {
			return nil, err
		}
		if err := readWhy(&m, textOf(reply[1])); err != nil {
			return nil, err
		}
		messages = append(messages, m)
	}
	return messages, nil
}

func (e *Engine) queued(name, text rueidis.RedisMessage) (millrace.QueuedMessage, error) {
	b, err := e.readBody(textOf(name), textOf(text))
	return millrace.QueuedMessage{Name: b.name, Seq: b.seq, Prev: b.prev, RecordedAt: b.recordedAt, Body: b.event}, err
}

// whyPrefix is what stands before a dead letter's owner: reason, time, attempts, length.
const whyPrefix = 15

// readWhy reads why a message is dead: reason, time, attempts, whose it was, error.
func readWhy(m *millrace.QueuedMessage, record string) error {
	if len(record) < whyPrefix {
		return millrace.Errorf(millrace.CodeInternal, "the store holds a dead letter that cannot be read")
	}
	size := int(binary.LittleEndian.Uint16([]byte(record[13:15])))
	if len(record) < whyPrefix+size {
		return millrace.Errorf(millrace.CodeInternal, "the store holds a dead letter that cannot be read")
	}
	m.Reason = millrace.ReasonAttempts
	if record[0] == 'b' {
		m.Reason = millrace.ReasonBuried
	}
	m.DeadAt = moment(int64(number(record[1:9])))
	m.Attempts = int(binary.LittleEndian.Uint32([]byte(record[9:13])))
	m.Tenant, _ = splitWho(record[whyPrefix : whyPrefix+size])
	m.Error = record[whyPrefix+size:]
	return nil
}

// Redrive makes dead letters wait again.
func (e *Engine) Redrive(ctx context.Context, lane int, d millrace.DeadOf) (done, left int, err error) {
	return e.takeDead(ctx, lane, "r", d)
}

// DropDead removes dead letters.
func (e *Engine) DropDead(ctx context.Context, lane int, d millrace.DeadOf) (done, left int, err error) {
	return e.takeDead(ctx, lane, "d", d)
}

func (e *Engine) takeDead(ctx context.Context, lane int, verb string, d millrace.DeadOf) (done, left int, err error) {
	args := []string{d.Queue, verb, strconv.Itoa(len(e.own)), "", "0"}
	if d.All {
		args[3], args[4] = d.Tenant, strconv.Itoa(min(d.Max, maxItems))
	} else {
		args = append(args, strconv.Itoa(len(d.Names)), strconv.Itoa(lane))
		for _, name := range d.Names {
			args = append(args, strconv.FormatUint(name, 10))
		}
		for i := range d.Openings {
			args = append(args, reopeningArgs(&d.Openings[i])...)
		}
	}
	return e.pair(ctx, &e.scripts.deadTake, lane, millis(d.Now), args)
}

// Purge removes what waits or is delayed.
func (e *Engine) Purge(ctx context.Context, lane int, p millrace.Purge) (done, left int, err error) {
	args := []string{p.Queue, p.Tenant, strconv.Itoa(min(p.Max, maxItems)), strconv.Itoa(len(e.own))}
	return e.pair(ctx, &e.scripts.purge, lane, millis(p.Now), args)
}

// Release ends leases that were taken under a consumer's name.
func (e *Engine) Release(ctx context.Context, lane int, r millrace.Release) (int, error) {
	args := []string{r.Queue, r.Consumer, strconv.Itoa(min(r.Max, maxItems)), strconv.Itoa(len(e.own))}
	done, _, err := e.pair(ctx, &e.scripts.release, lane, millis(r.Now), args)
	return done, err
}

// pair calls a script that answers with two numbers.
func (e *Engine) pair(ctx context.Context, s *script, lane int, now string, args []string) (first, second int, err error) {
	reply, err := e.runLane(ctx, s, lane, now, args...)
	if err != nil {
		return 0, 0, err
	}
	return int(intOf(reply[0])), int(intOf(reply[1])), nil
}

package embedded

import (
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// chunk is operations that are listed in one record, by number. The record is named by the first of them.
type chunk struct {
	key     []byte
	numbers []uint64
}

func chunkAt(it *pebble.Iterator) (chunk, error) {
	value, err := it.ValueAndErr()
	if err != nil {
		return chunk{}, err
	}
	numbers, err := decodeRising(value)
	return chunk{key: slices.Clone(it.Key()), numbers: numbers}, err
}

// below is how many numbers of chunks are lower than one.
func below(chunks []chunk, limit uint64) (n int) {
	for _, c := range chunks {
		i, _ := slices.BinarySearch(c.numbers, limit)
		n += i
	}
	return n
}

// lowest is up to most of the lowest numbers of chunks.
func lowest(chunks []chunk, most int) (numbers []uint64) {
	for _, c := range chunks {
		numbers = append(numbers, c.numbers...)
	}
	slices.Sort(numbers)
	return numbers[:min(len(numbers), max(0, most))]
}

// shorten takes numbers, which are sorted, out of a chunk; what is left is named anew.
func (l *lane) shorten(g *group, c chunk, gone []uint64, key func(b []byte, first uint64) []byte) {
	var rest []uint64
	for _, number := range c.numbers {
		if _, found := slices.BinarySearch(gone, number); !found {
			rest = append(rest, number)
		}
	}
	if len(rest) == len(c.numbers) {
		return
	}
	if len(rest) == 0 || rest[0] != c.numbers[0] {
		g.key = append(g.key[:0], c.key...)
		g.del()
		g.hide()
	}
	if len(rest) > 0 {
		g.key = key(g.key[:0], rest[0])
		g.val = appendRising(g.val[:0], rest)
		g.set()
		g.show()
	}
}

// unlist takes operations, by number, out of the list of their queue.
func (l *lane) unlist(g *group, u uid, numbers []uint64) error {
	chunks, err := l.chunksWith(u, numbers)
	for _, c := range chunks {
		l.shorten(g, c, numbers, func(b []byte, first uint64) []byte { return queueSeqKey(b, kindOpened, l.no, u, first) })
	}
	return err
}

// chunksWith is the parts of a queue's list that have the given operations.
func (l *lane) chunksWith(u uid, numbers []uint64) (chunks []chunk, err error) {
	it, err := l.overlay.prefixed(queueKey(nil, kindOpened, l.no, u))
	if err != nil {
		return nil, err
	}
	defer it.Close()
	last := uint64(0) // of the part before
	for _, number := range numbers {
		if number <= last {
			continue
		}
		if !it.SeekLT(queueSeqKey(nil, kindOpened, l.no, u, number+1)) {
			return nil, errIndex("an operation expires and its queue does not list it")
		}
		c, err := chunkAt(it)
		if err != nil {
			return nil, err
		}
		chunks = append(chunks, c)
		last = c.numbers[len(c.numbers)-1]
	}
	return chunks, it.Error()
}

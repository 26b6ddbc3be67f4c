package embedded

import (
	"encoding/binary"

	"github.com/millrace-dev/millrace"
)

// filterBytes is the size of the filters of one generation, over all lanes.
// With ten bits for an id it knows three million of them.
const filterBytes = 4 << 20

// filter answers for the ids of one generation whether one may be on disk, so
// that most new ids need not be looked for. Its size is fixed: past what it was
// made for it only says maybe more often.
type filter struct {
	gen   uint32
	words []uint64 // blocks of eight: the bits of an id lie in one cache line
}

// filters are those of the generation being written and the one before.
type filters struct {
	young, old filter
	first      uint32 // the first generation that is known whole, because it began since the store was opened
}

// begin starts a generation.
func (f *filters) begin(gen uint32, size int) {
	if f.first == 0 {
		f.first = gen
	}
	if f.young.gen+1 == gen {
		f.old, f.young = f.young, f.old
	} else {
		f.old.gen = 0
	}
	f.young.gen = gen
	if f.young.words == nil {
		f.young.words = make([]uint64, size/64*8)
	}
	clear(f.young.words)
}

// absent reports whether an id is certainly in neither of the generations that are read.
func (f *filters) absent(gen uint32, d millrace.Digest) bool {
	return f.young.lacks(gen, d, f.first) && (gen == 1 || f.old.lacks(gen-1, d, f.first))
}

func (f *filter) lacks(gen uint32, d millrace.Digest, first uint32) bool {
	return first != 0 && gen >= first && f.gen == gen && !f.has(d)
}

func (f *filter) add(gen uint32, d millrace.Digest) {
	if f.gen == gen {
		block, bits := f.place(d)
		for i := range 7 {
			bit := bits >> (9 * i) & 511
			block[bit>>6] |= 1 << (bit & 63)
		}
	}
}

func (f *filter) has(d millrace.Digest) bool {
	block, bits := f.place(d)
	for i := range 7 {
		bit := bits >> (9 * i) & 511
		if block[bit>>6]&(1<<(bit&63)) == 0 {
			return false
		}
	}
	return true
}

// place is an id's block and its bits there. A digest is random already.
func (f *filter) place(d millrace.Digest) (block []uint64, bits uint64) {
	n := binary.LittleEndian.Uint64(d[:8]) % uint64(len(f.words)/8)
	return f.words[n*8 : n*8+8], binary.LittleEndian.Uint64(d[8:])
}

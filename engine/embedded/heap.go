package embedded

// heap is a min-heap of messages by name.
type heap[T interface{ name() uint64 }] []T

func (e entry) name() uint64 { return e.seq }

func (h *heap[T]) push(x T) {
	b := append(*h, x)
	i := len(b) - 1
	for i > 0 {
		up := (i - 1) / 2
		if b[up].name() <= x.name() {
			break
		}
		b[i] = b[up]
		i = up
	}
	b[i] = x
	*h = b
}

// pop removes the lowest; the last one gives back the room.
func (h *heap[T]) pop() T {
	b := *h
	top, last := b[0], b[len(b)-1]
	b = b[:len(b)-1]
	i := 0
	for 2*i+1 < len(b) {
		kid := 2*i + 1
		if kid+1 < len(b) && b[kid+1].name() < b[kid].name() {
			kid++
		}
		if b[kid].name() >= last.name() {
			break
		}
		b[i] = b[kid]
		i = kid
	}
	if len(b) == 0 {
		*h = nil
		return top
	}
	b[i] = last
	*h = b
	return top
}

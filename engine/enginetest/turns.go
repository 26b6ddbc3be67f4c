package enginetest

import (
	"container/list"
	"fmt"
)

// Turns judges the order in which the tenants of one lane and queue are served:
// no tenant is served twice while another has waited since that one's last turn.
// It knows nothing of rings; it is told who waits and who is served.
type Turns struct {
	clock   int
	waiting map[string]int           // messages
	place   map[string]*list.Element // of those that wait
	order   *list.List               // of wait: the longest first
	last    map[string]int           // turn
}

// wait is how long a tenant has waited: since it came, or since its last turn.
type wait struct {
	tenant string
	since  int
}

// NewTurns returns a judge that has seen nobody.
func NewTurns() *Turns {
	return &Turns{waiting: map[string]int{}, place: map[string]*list.Element{}, order: list.New(), last: map[string]int{}}
}

// Waits says that a message of a tenant begins to wait.
func (t *Turns) Waits(tenant string) {
	t.clock++
	t.waiting[tenant]++
	if t.waiting[tenant] == 1 {
		t.place[tenant] = t.order.PushBack(wait{tenant, t.clock})
	}
}

// Served says that a message of a tenant is served, and judges it.
func (t *Turns) Served(tenant string) error {
	t.clock++
	place := t.place[tenant]
	if place == nil {
		return fmt.Errorf("tenant %s is served and has nothing waiting", tenant)
	}
	var unfair error
	longest := t.order.Front()
	if longest == place {
		longest = place.Next()
	}
	if last, served := t.last[tenant]; served && longest != nil && longest.Value.(wait).since < last {
		unfair = fmt.Errorf("tenant %s is served twice while %s has waited", tenant, longest.Value.(wait).tenant)
	}
	t.last[tenant] = t.clock
	if t.waiting[tenant]--; t.waiting[tenant] == 0 {
		t.order.Remove(place)
		delete(t.place, tenant)
		return unfair
	}
	place.Value = wait{tenant, t.clock}
	t.order.MoveToBack(place)
	return unfair
}

// Waiting is the number of tenants that wait.
func (t *Turns) Waiting() int { return t.order.Len() }

// Jain is Jain's index of fairness: 1 if all shares are equal, 1/n if one has all.
func Jain(shares []float64) float64 {
	var sum, squares float64
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(shares)) * squares)
}

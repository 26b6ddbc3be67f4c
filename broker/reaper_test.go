package broker

import (
	"fmt"
	"testing"
)

func TestALaneHasOneOwnerAndFewMoveWhenANodeGoes(t *testing.T) {
	members := []string{"a", "b", "c", "d"}
	moved, owned := 0, map[string]int{}
	const lanes = 64
	for lane := range lanes {
		was := owner(members, lane)
		owned[was]++
		if now := owner(members[:3], lane); was != "d" && now != was {
			moved++
		}
	}
	if moved != 0 {
		t.Errorf("%d lanes moved that the lost node did not own", moved)
	}
	for _, m := range members {
		if owned[m] == 0 {
			t.Errorf("%s owns nothing: %v", m, owned)
		}
	}
	if got := owner(nil, 0); got != "" {
		t.Errorf("nobody there, got %s", fmt.Sprint(got))
	}
}

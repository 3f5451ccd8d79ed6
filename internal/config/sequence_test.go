package config

import (
	"slices"
	"testing"
)

// A zone that stands twice in a list of routes, as in a snippet that is imported twice, is
// charged twice.
func TestSequence(t *testing.T) {
	q := &sequence{zones: make(map[string]bool)}
	for i, c := range []struct {
		zones  []string
		second bool
		twice  []string
	}{
		{[]string{"a", "b"}, false, nil},
		{[]string{"b", "c"}, true, []string{"b"}},
		{[]string{"a", "c", "d"}, false, []string{"a", "c"}},
	} {
		second, twice := q.enter(c.zones)
		if second != c.second || !slices.Equal(twice, c.twice) {
			t.Errorf("handler %d: second %t, twice %v, want %t, %v", i, second, twice, c.second, c.twice)
		}
	}
}

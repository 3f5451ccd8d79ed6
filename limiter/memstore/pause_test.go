package memstore

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// No decision waits for a table to grow, not even where one lock guards all keys, as it does
// after a reload that raised a low bound. Each step is given the least time that it took in
// several rounds: what grows does so at the same step of every round, and what else holds
// a step up does not.
func TestNoPauseWhileGrowing(t *testing.T) {
	const keys, rounds, most = 600_000, 3, 5 * time.Millisecond
	l := limit(limiter.SlidingLog) // whose states of three events do not fit into an entry
	l.Window = time.Hour           // longer than the test, whatever else the machine does
	least := make([]time.Duration, keys)
	asks, results := make([]limiter.Ask, 1), make([]limiter.Result, 1)
	for round := range rounds {
		s := New(Options{MaxKeys: 1})
		s.SetMaxKeys(keys)
		for i := range keys {
			asks[0] = limiter.Ask{Limit: l, Key: strconv.Itoa(i), Cost: 3}
			start := time.Now()
			if err := s.Take(context.Background(), asks, results); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); round == 0 || took < least[i] {
				least[i] = took
			}
		}
		if n := s.Len(); n != keys {
			t.Fatalf("%d keys are held, want %d", n, keys)
		}
	}
	if worst := slices.Max(least); worst > most {
		t.Errorf("key number %d took %s, want at most %s", slices.Index(least, worst), worst, most)
	}
}

package memstore

import (
	"testing"

	"github.com/weirhq/caddy-weir/limiter"
)

// Limits that are more than there are slots for, as after many reloads, are told apart all the same, and
// those of one zone, algorithm and index are one, whatever their addresses.
func TestKnownLimits(t *testing.T) {
	const indexes = 7
	s := New(Options{})
	for i := range 3 << knownBits {
		l := limit(limiter.FixedWindow)
		l.Index = i % indexes
		asked := int64(i / indexes) // so often before
		if r := take(t, s, l, "k", 1); r.Allowed != (asked < 3) || r.Remaining != max(2-asked, 0) {
			t.Fatalf("limit %d: %+v", i, r)
		}
	}
}

// A limit whose slot another one has costs no memory either.
func TestNoAllocationsWithoutASlot(t *testing.T) {
	s := New(Options{})
	l := limit(limiter.FixedWindow)
	s.limits.slot(l).Store(&known{limit: limit(limiter.FixedWindow)})
	asks, results := []limiter.Ask{{Limit: l, Key: "k", Cost: 1}}, make([]limiter.Result, 1)
	if n := testing.AllocsPerRun(100, func() { _ = s.Take(t.Context(), asks, results) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if r := results[0]; r.Remaining != 0 || r.Allowed {
		t.Errorf("%+v", r)
	}
}

// Limits of before a reload do not keep their slots for ever.
func TestOldLimitsGiveWay(t *testing.T) {
	s := New(Options{})
	l := limit(limiter.FixedWindow)
	slot := s.limits.slot(l)
	slot.Store(&known{limit: limit(limiter.FixedWindow)})
	asks, results := []limiter.Ask{{Limit: l, Key: "k", Cost: 1}}, make([]limiter.Result, 1)
	for range 100 * takeover {
		if err := s.Take(t.Context(), asks, results); err != nil {
			t.Fatal(err)
		}
		if slot.Load().limit == l {
			return
		}
	}
	t.Error("a limit is asked about again and again, and is not known")
}

// An algorithm that there is not is an error each time.
func TestUnknownAlgorithm(t *testing.T) {
	s := New(Options{})
	l := limit("no_such")
	for range 2 {
		err := s.Take(t.Context(), []limiter.Ask{{Limit: l, Key: "k", Cost: 1}}, make([]limiter.Result, 1))
		if err == nil || err.Error() != `zone "api": no algorithm "no_such"` {
			t.Errorf("%v", err)
		}
	}
}

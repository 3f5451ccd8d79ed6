package people

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A small crowd is counted exactly, however it is spread over sketches; of a large one the error is
// what such a sketch has.
func TestSketch(t *testing.T) {
	seed := maphash.MakeSeed()
	hash := func(i int) uint64 { return maphash.Comparable(seed, i) }
	for _, n := range []int{0, 1, 100, sketchSize - 1} {
		var parts [3]sketch
		for i := range n {
			for _, p := range []int{i % 3, (i + 1) % 3} { // each in two of them
				parts[p].add(hash(i))
			}
		}
		if got := merge(nil, parts[:]...).count(); got != int64(n) {
			t.Errorf("%d things: counted %d", n, got)
		}
	}
	for _, n := range []int{1000, 100_000} {
		var one sketch
		for i := range n {
			one.add(hash(i))
		}
		// Six standard errors: once in a billion.
		if got := one.count(); got < int64(n)*62/100 || got > int64(n)*138/100 {
			t.Errorf("%d things: counted %d", n, got)
		}
		if len(one) != sketchSize || !slices.IsSorted(one) {
			t.Errorf("%d things: %d hashes kept, in order: %v", n, len(one), slices.IsSorted(one))
		}
	}
	var s sketch
	if known, changed := s.add(7); known || !changed {
		t.Errorf("a first thing: known %v, changed %v", known, changed)
	}
	if known, changed := s.add(7); !known || changed {
		t.Errorf("the same again: known %v, changed %v", known, changed)
	}
}

// A town behind one address is counted as such, and forgotten after a window, part by part.
func TestSeen(t *testing.T) {
	now := time.Unix(1_800_000_000, 0).Truncate(24 * time.Hour)
	e := New(Options{Now: func() time.Time { return now }})
	for i := range 30 {
		e.See("192.0.2.1", User, fmt.Sprint("user", i%10))
		e.See("192.0.2.1", Browser, fmt.Sprint("agent", i))
		e.See("192.0.2.2", Browser, "agent")
	}
	want := func(when string, address string, want Seen) {
		t.Helper()
		if got := e.Seen(address); got != want {
			t.Errorf("%s %s: %+v, want %+v", when, address, got, want)
		}
	}
	want("at once", "192.0.2.1", Seen{10, 30})
	want("at once", "192.0.2.2", Seen{0, 1})
	want("at once", "192.0.2.3", Seen{})
	now = now.Add(17 * time.Hour)
	e.See("192.0.2.1", User, "late")
	want("within the window", "192.0.2.1", Seen{11, 30})
	now = now.Add(7 * time.Hour)
	want("after a window", "192.0.2.1", Seen{1, 0})
	now = now.Add(48 * time.Hour)
	want("long after", "192.0.2.1", Seen{})
	now = now.Add(-96 * time.Hour)
	e.See("192.0.2.1", User, "back")
	want("after a clock was set back", "192.0.2.1", Seen{1, 0})
}

// What is kept is bounded, whatever addresses there are.
func TestBound(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	e := New(Options{MaxAddresses: 100, Now: func() time.Time { return now }})
	for i := range 1000 {
		e.See(fmt.Sprint(i), Browser, "agent")
		if n := e.Len(); n > 100 {
			t.Fatalf("%d addresses are kept", n)
		}
	}
	if got := e.Seen("999"); got.Browsers != 1 {
		t.Errorf("the latest is not kept: %+v", got)
	}
	now = now.Add(24 * time.Hour)
	e.See("new", Browser, "agent")
	for i := range 90 {
		e.See(fmt.Sprint("n", i), Browser, "agent")
	}
	if got := e.Seen("new"); got.Browsers != 1 {
		t.Error("a new address went before those of yesterday")
	}
}

// A server stands for what processes share.
type server struct {
	mu   sync.Mutex
	seen map[string]map[string]bool
	err  error
	keep time.Duration
}

func (s *server) CountPeople(_ context.Context, address string, kind Kind, generations []int64, people []string, keep time.Duration) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	if s.seen == nil {
		s.seen = make(map[string]map[string]bool)
	}
	name := func(g int64) string { return fmt.Sprint(address, kind, g) }
	newest := name(generations[len(generations)-1])
	if s.seen[newest] == nil {
		s.seen[newest] = make(map[string]bool)
	}
	all := make(map[string]bool)
	for _, p := range people {
		s.seen[newest][p] = true
	}
	for _, g := range generations {
		for p := range s.seen[name(g)] {
			all[p] = true
		}
	}
	s.keep = keep
	return int64(len(all)), nil
}

func (s *server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Nodes see each other's people, and what could not be told while the server was away is told
// afterwards.
func TestShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s server
		var told []error
		one := New(Options{Sharer: &s, Told: func(err error) { told = append(told, err) }})
		two := New(Options{Sharer: &s})
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() { one.Run(ctx) })
		work.Go(func() { two.Run(ctx) })
		see := func(e *Estimator, names ...string) {
			for _, n := range names {
				e.See("192.0.2.1", User, n)
			}
		}
		settle := func(want1, want2 int64) {
			t.Helper()
			<-time.After(2 * ShareInterval)
			synctest.Wait()
			if a, b := one.Seen("192.0.2.1").Users, two.Seen("192.0.2.1").Users; a != want1 || b != want2 {
				t.Errorf("seen %d and %d, want %d and %d", a, b, want1, want2)
			}
		}
		see(one, "ada", "bob")
		settle(2, 0)
		see(two, "bob", "cy")
		settle(2, 3)
		// Who is known already is asked about again now and then.
		<-time.After(refreshAfter)
		see(one, "ada")
		settle(3, 3)

		s.fail(errors.New("away"))
		see(one, "di", "em")
		settle(4, 3) // what this node saw alone, once that is more
		s.fail(nil)
		settle(5, 3)
		if len(told) != 2 || told[0] == nil || told[1] != nil {
			t.Errorf("told %v, want an error and its end", told)
		}
		if s.keep != DefaultWindow {
			t.Errorf("kept for %s", s.keep)
		}
		cancel()
		work.Wait()
	})
}

// L131, S0.10: allowance grows with the people, up to a bound; beyond it an operator's word is
// needed, which may end.
func TestAllowance(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	a := Allowance{PerUser: 2.5, Max: 5, Overrides: []Override{
		{Range: netip.MustParsePrefix("192.0.2.0/28"), Factor: 40, Expires: now.Add(time.Hour)},
		{Range: netip.MustParsePrefix("192.0.2.0/24"), Factor: 1},
	}}
	for _, test := range []struct {
		client string
		seen   Seen
		after  time.Duration
		want   int
	}{
		{"203.0.113.1", Seen{}, 0, 1},
		{"203.0.113.1", Seen{Browsers: 3}, 0, 3},
		{"203.0.113.1", Seen{Browsers: 3000}, 0, 5},
		{"203.0.113.1", Seen{Users: 1, Browsers: 3000}, 0, 3}, // where users sign in they count
		{"203.0.113.1", Seen{Users: 2}, 0, 5},
		{"203.0.113.1", Seen{Users: 1 << 40}, 0, 5},
		{"192.0.2.1", Seen{}, 0, 40},
		{"192.0.2.1", Seen{}, time.Hour, 1},
		{"192.0.2.99", Seen{Users: 100}, 0, 1},
		{"2001:db8::1", Seen{Users: 2}, 0, 5},
	} {
		if got := a.Factor(netip.MustParseAddr(test.client), test.seen, now.Add(test.after)); got != test.want {
			t.Errorf("%s, %+v, after %s: %d, want %d", test.client, test.seen, test.after, got, test.want)
		}
	}
	if got := new(Allowance).Factor(netip.Addr{}, Seen{Users: 9}, now); got != 1 {
		t.Errorf("the zero allowance gives %d", got)
	}
	if got := a.Estimate(Seen{Users: 4}); got != 10 {
		t.Errorf("estimate %d, want 10", got)
	}
}

// Seeing somebody who is known allocates nothing.
func TestSeeAllocations(t *testing.T) {
	e := New(Options{})
	e.See("192.0.2.1", User, "ada")
	if n := testing.AllocsPerRun(100, func() {
		e.See("192.0.2.1", User, "ada")
		e.Seen("192.0.2.1")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSee(b *testing.B) {
	e := New(Options{})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			e.See("192.0.2.1", User, "ada")
		}
	})
}

package layer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/weirhq/caddy-weir/limiter"
)

const (
	toldDown = "true dial: store unavailable"
	toldUp   = "false <nil>"
)

func TestFallbackTake(t *testing.T) {
	var first, second recorder
	var told reporter
	s := fallbackBy((&clock{step: calm}).now, &second, told.tell)(&first)
	results := make([]limiter.Result, len(asks))

	if err := s.Take(t.Context(), asks, results); err != nil || results[0].Origin != limiter.Cached {
		t.Errorf("while up: %+v, %v, want the first store's", results[0], err)
	}
	first.fail(errDown)
	for range 2 {
		if err := s.Take(t.Context(), asks, results); err != nil {
			t.Fatal(err)
		}
		for i := range results {
			if !results[i].Allowed || results[i].Origin != limiter.Local {
				t.Errorf("while down: %+v, want the second store's as local", results[i])
			}
		}
	}
	// L103: the way back needs nobody.
	first.fail(nil)
	if err := s.Take(t.Context(), asks, results); err != nil || results[0].Origin != limiter.Cached {
		t.Errorf("after: %+v, %v, want the first store's", results[0], err)
	}
	if got := second.taken(); !slices.Equal(got, []string{"take", "take"}) {
		t.Errorf("second store was asked %v", got)
	}
	if got := first.taken(); len(got) != 4 {
		t.Errorf("first store was asked %v, want once a call and no more", got)
	}
	if !told.is(toldDown, toldUp) {
		t.Errorf("told %q", told.told)
	}
}

func TestFallbackErrors(t *testing.T) {
	broken := errors.New("broken")
	results := make([]limiter.Result, len(asks))

	t.Run("other errors are not an outage", func(t *testing.T) {
		first, second := recorder{err: broken}, recorder{}
		var told reporter
		if err := Fallback(&second, told.tell)(&first).Take(t.Context(), asks, results); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
		if len(second.calls) > 0 || !told.is() {
			t.Errorf("second was asked %v, told %q", second.calls, told.told)
		}
	})
	t.Run("both down", func(t *testing.T) {
		first, second := recorder{err: errDown}, recorder{err: broken}
		if err := Fallback(&second, nil)(&first).Take(t.Context(), asks, results); !errors.Is(err, broken) {
			t.Errorf("got %v, want the second store's error", err)
		}
	})
	t.Run("no time left", func(t *testing.T) {
		// A store that respects its context still decides after the first one used
		// all the time there was.
		first, second := recorder{err: errDown}, recorder{}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := Fallback(&second, nil)(&first).Take(ctx, asks, results); err != nil {
			t.Errorf("got %v", err)
		}
	})
}

func TestFallbackOtherMethods(t *testing.T) {
	release := func(s limiter.Store) error { return s.Release(context.Background(), asks) }
	adjust := func(s limiter.Store) error { return s.Adjust(context.Background(), nil) }
	reset := func(s limiter.Store) error { return s.Reset(context.Background(), asks[0].Limit, "a") }
	tests := []struct {
		name   string
		call   func(limiter.Store) error
		err    error // of the first store
		second []string
		want   error
	}{
		{name: "release", call: release},
		{name: "release while down", call: release, err: errDown, second: []string{"release"}},
		{name: "adjust", call: adjust},
		{name: "adjust while down", call: adjust, err: errDown, second: []string{"adjust"}},
		{name: "reset", call: reset, second: []string{"reset"}},
		{name: "reset while down", call: reset, err: errDown, second: []string{"reset"}, want: errDown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			first, second := recorder{err: tt.err}, recorder{}
			var told reporter
			err := tt.call(Fallback(&second, told.tell)(&first))
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if !slices.Equal(second.taken(), tt.second) {
				t.Errorf("second store was asked %v, want %v", second.calls, tt.second)
			}
			if down := tt.err != nil; down != told.is(toldDown) || !down && !told.is() {
				t.Errorf("told %q", told.told)
			}
		})
	}
}

// TestFallbackReleaseAfterOutage: a lease taken during the outage lies in the second
// store, one taken before it in the first.
func TestFallbackReleaseAfterOutage(t *testing.T) {
	first, second := recorder{err: errDown}, recorder{}
	s := Fallback(&second, nil)(&first)
	if err := s.Take(t.Context(), asks, make([]limiter.Result, len(asks))); err != nil {
		t.Fatal(err)
	}
	first.fail(nil)
	if err := s.Release(t.Context(), asks); err != nil {
		t.Fatal(err)
	}
	if a, b := first.taken(), second.taken(); a[len(a)-1] != "release" || b[len(b)-1] != "release" {
		t.Errorf("first was asked %v, second %v", a, b)
	}
}

// TestFallbackLateSuccess: an answer that was under way when the outage began does not
// end it.
func TestFallbackLateSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := &recorder{wait: make(chan struct{})}
		var second recorder
		var told reporter
		s := fallbackBy((&clock{step: calm}).now, &second, told.tell)(first)
		take := func() {
			if err := s.Take(context.Background(), asks, make([]limiter.Result, len(asks))); err != nil {
				t.Error(err)
			}
		}
		go take() // will succeed, late
		synctest.Wait()
		first.fail(errDown)
		go take()
		synctest.Wait()
		// The second call has its error already, so whichever answers first: both
		// end, one of them well.
		first.wait <- struct{}{}
		first.wait <- struct{}{}
		synctest.Wait()
		if told.is(toldDown, toldUp) {
			t.Error("the late success ended the outage")
		}

		first.fail(nil)
		go take()
		synctest.Wait()
		first.wait <- struct{}{}
		synctest.Wait()
		if !told.is(toldDown, toldUp) {
			t.Errorf("told %q, want the outage's end once a fresh call succeeded", told.told)
		}
	})
}

// TestFallbackFlapping: a store that answers every other call is down, which is told of
// once, until it has not failed for a while.
func TestFallbackFlapping(t *testing.T) {
	var first recorder
	var told reporter
	s := fallbackBy((&clock{step: calm / 10}).now, AllowAll{}, told.tell)(&first)
	take := func(err error) {
		t.Helper()
		first.fail(err)
		if err := s.Take(t.Context(), asks, make([]limiter.Result, len(asks))); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 {
		take(errDown)
		take(nil)
	}
	if !told.is(toldDown) {
		t.Errorf("while it comes and goes: told %q", told.told)
	}
	for range 10 {
		take(nil)
	}
	if !told.is(toldDown, toldUp) {
		t.Errorf("after a second without failure: told %q", told.told)
	}
}

// TestFallbackTellsInTurn: with many callers and a store that comes and goes, reports
// still alternate.
func TestFallbackTellsInTurn(t *testing.T) {
	var first recorder
	var mu sync.Mutex
	var reports []bool
	s := fallbackBy((&clock{step: calm}).now, AllowAll{}, func(down bool, err error) {
		mu.Lock()
		defer mu.Unlock()
		if down != (err != nil) {
			t.Errorf("told %v with error %v", down, err)
		}
		reports = append(reports, down)
	})(&first)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			results := make([]limiter.Result, len(asks))
			for n := range 500 {
				if i == 0 {
					first.fail([]error{nil, errDown}[n%2])
				}
				if err := s.Take(context.Background(), asks, results); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if len(reports) == 0 {
		t.Fatal("nothing was told")
	}
	for i, down := range reports {
		if down != (i%2 == 0) {
			t.Fatalf("report %d of %v says down = %v", i, len(reports), down)
		}
	}
}

func TestFallbackAllocations(t *testing.T) {
	results := make([]limiter.Result, len(asks))
	s := Fallback(DenyAll{}, nil)(AllowAll{})
	if n := testing.AllocsPerRun(100, func() { _ = s.Take(context.Background(), asks, results) }); n > 0 {
		t.Errorf("%v allocations while the store is up, want none", n)
	}
}

func BenchmarkFallback(b *testing.B) {
	results := make([]limiter.Result, len(asks))
	for name, s := range map[string]limiter.Store{
		"without": AllowAll{},
		"with":    Fallback(DenyAll{}, nil)(AllowAll{}),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = s.Take(context.Background(), asks, results)
			}
		})
	}
}

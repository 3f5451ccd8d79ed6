package layer

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/weirhq/caddy-weir/limiter"
)

func TestFallbackTake(t *testing.T) {
	var first, second recorder
	s := Fallback(&second)(&first)
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
}

func TestFallbackErrors(t *testing.T) {
	broken := errors.New("broken")
	results := make([]limiter.Result, len(asks))

	t.Run("other errors are not an outage", func(t *testing.T) {
		first, second := recorder{err: broken}, recorder{}
		if err := Fallback(&second)(&first).Take(t.Context(), asks, results); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
		if len(second.calls) > 0 {
			t.Errorf("second was asked %v", second.calls)
		}
	})
	t.Run("both down", func(t *testing.T) {
		first, second := recorder{err: errDown}, recorder{err: broken}
		if err := Fallback(&second)(&first).Take(t.Context(), asks, results); !errors.Is(err, broken) {
			t.Errorf("got %v, want the second store's error", err)
		}
	})
	t.Run("no time left", func(t *testing.T) {
		// A store that respects its context still decides after the first one used
		// all the time there was.
		first, second := recorder{err: errDown}, recorder{}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := Fallback(&second)(&first).Take(ctx, asks, results); err != nil {
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
			err := tt.call(Fallback(&second)(&first))
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if !slices.Equal(second.taken(), tt.second) {
				t.Errorf("second store was asked %v, want %v", second.calls, tt.second)
			}
		})
	}
}

// TestFallbackReleaseAfterOutage: a lease taken during the outage lies in the second
// store, one taken before it in the first.
func TestFallbackReleaseAfterOutage(t *testing.T) {
	first, second := recorder{err: errDown}, recorder{}
	s := Fallback(&second)(&first)
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

func TestFallbackAllocations(t *testing.T) {
	results := make([]limiter.Result, len(asks))
	s := Fallback(DenyAll{})(AllowAll{})
	if n := testing.AllocsPerRun(100, func() { _ = s.Take(context.Background(), asks, results) }); n > 0 {
		t.Errorf("%v allocations while the store is up, want none", n)
	}
}

func BenchmarkFallback(b *testing.B) {
	results := make([]limiter.Result, len(asks))
	for name, s := range map[string]limiter.Store{
		"without": AllowAll{},
		"with":    Fallback(DenyAll{})(AllowAll{}),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = s.Take(context.Background(), asks, results)
			}
		})
	}
}

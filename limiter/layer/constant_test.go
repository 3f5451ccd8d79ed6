package layer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

func TestConstant(t *testing.T) {
	// In a bubble the clock stands still.
	synctest.Test(t, func(t *testing.T) {
		now := limiter.At(time.Now())
		tests := []struct {
			name  string
			store limiter.Store
			want  [2]limiter.Result // asks[0] has a cost, asks[1] only looks
		}{
			{"allow", AllowAll{}, [2]limiter.Result{
				{Allowed: true, Origin: limiter.Local, Max: 5, Remaining: 5, Now: now},
				{Allowed: true, Origin: limiter.Local, Max: 9, Remaining: 9, Now: now},
			}},
			{"deny", DenyAll{}, [2]limiter.Result{
				{Origin: limiter.Local, Max: 5, Reset: time.Second, Wait: time.Second, Now: now},
				{Allowed: true, Origin: limiter.Local, Max: 9, Reset: time.Second, Wait: time.Second, Now: now},
			}},
		}
		for _, tt := range tests {
			var results [2]limiter.Result
			if err := tt.store.Take(t.Context(), asks, results[:]); err != nil || results != tt.want {
				t.Errorf("%s: got  %+v, %v\nwant %+v", tt.name, results, err, tt.want)
			}
			if err := tt.store.Release(t.Context(), asks); err != nil {
				t.Errorf("%s: release: %v", tt.name, err)
			}
			if err := tt.store.Adjust(t.Context(), nil); err != nil {
				t.Errorf("%s: adjust: %v", tt.name, err)
			}
			if err := tt.store.Reset(t.Context(), asks[0].Limit, "a"); err != nil {
				t.Errorf("%s: reset: %v", tt.name, err)
			}
		}
	})
}

// TestConstantAsSecond: what a client meets while the store is down, by the word of
// on_store_error.
func TestConstantAsSecond(t *testing.T) {
	for name, want := range map[string]bool{"allow": true, "deny": false} {
		second := map[string]limiter.Store{"allow": AllowAll{}, "deny": DenyAll{}}[name]
		s := Fallback(second)(&recorder{err: errDown})
		d, err := limiter.Take(t.Context(), s, asks, make([]limiter.Result, len(asks)))
		if err != nil || d.Allowed != want {
			t.Errorf("%s: allowed = %v, %v", name, d.Allowed, err)
		}
	}
}

package memstore

import (
	"context"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/algorithm"
	"github.com/weirhq/caddy-weir/limiter/storetest"
)

// The table against a plain map of states, through all that makes entries come and go.
func TestTable(t *testing.T) {
	clock := storetest.NewClock()
	s := New(Options{MaxKeys: 3000, Now: clock.Now})
	rng := rand.New(rand.NewPCG(1, 2))
	limits := []*limiter.Limit{limit(limiter.SlidingWindow), limit(limiter.TokenBucket), limit(limiter.SlidingLog)}
	for _, l := range limits {
		l.Events = 40
	}
	type name struct {
		l   *limiter.Limit
		key string
	}
	plain := make(map[name][]byte)
	for step := range 30_000 {
		if step%100 == 0 {
			clock.Advance(time.Duration(rng.Int64N(int64(time.Second))))
		}
		n := name{limits[rng.IntN(len(limits))], strconv.Itoa(rng.IntN(600))}
		alg, now := algorithm.Of(n.l.Algorithm), limiter.At(clock.Now())
		switch rng.IntN(20) {
		case 0:
			s.Sweep(rng.IntN(100))
		case 1:
			if err := s.Reset(context.Background(), n.l, n.key); err != nil {
				t.Fatal(err)
			}
			delete(plain, n)
		case 2:
			c := limiter.Change{Limit: n.l, Key: n.key, Delta: rng.Int64N(20) - 15}
			if err := s.Adjust(context.Background(), []limiter.Change{c}); err != nil {
				t.Fatal(err)
			}
			plain[n], _ = algorithm.Adjust(alg, now, plain[n], &c)
		default:
			a := limiter.Ask{Limit: n.l, Key: n.key, Cost: rng.Int64N(12)}
			want := algorithm.Peek(alg, now, plain[n], &a)
			if want.Allowed && a.Cost > 0 {
				plain[n], want = algorithm.Spend(alg, now, plain[n], &a)
			}
			if got := take(t, s, n.l, n.key, a.Cost); got != want {
				t.Fatalf("step %d: %s %s cost %d: %+v, want %+v", step, n.l.Algorithm, n.key, a.Cost, got, want)
			}
		}
	}
}

package redisstore

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/algorithm"
)

// expiryOf returns when the state of a limit and a key expires, or 0 if there is none.
func expiryOf(t *testing.T, s *Store, l *limiter.Limit, key string) time.Duration {
	t.Helper()
	kind, err := kindOf(l.Algorithm)
	if err != nil {
		t.Fatal(err)
	}
	at, err := only(s).PExpireTime(background, s.names.build(s.hasher.Load(), kind, l, key)).Result()
	if err != nil {
		t.Fatal(err)
	}
	return max(at, 0)
}

// The server is told how long to keep a key by the first two requests, and then not again before that
// is needed: at the latest when a limit looks back further than it did.
func TestKeysAreKeptWithoutSayingSo(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	for _, a := range algorithm.All {
		t.Run(a.Name(), func(t *testing.T) {
			store := open(t, s, Options{Secret: []byte("s")})
			l := limitOf(a.Name(), 1000)
			if a.Name() == limiter.MinInterval {
				l.Events = 1
			}
			l.Window = 20 * time.Minute
			ask := limiter.Ask{Limit: l, Key: a.Name(), Cost: 1}
			var expiries []time.Duration
			var result [1]limiter.Result
			for i := range 12 {
				ask.Lease = strconv.Itoa(i)
				if ask.Cost = 1; i < 2 {
					ask.Cost = min(40, l.Max())
				}
				if err := store.Take(background, []limiter.Ask{ask}, result[:]); err != nil {
					t.Fatal(err)
				}
				expiries = append(expiries, expiryOf(t, store, l, ask.Key))
			}
			if a.Name() == limiter.MinInterval {
				return // never passes again before it is over
			}
			if d := expiries[1] - expiries[0]; d > 0 && d < 2*time.Second {
				t.Errorf("the second request kept the key for only %s longer", d)
			}
			if expiries[2] != expiries[11] {
				t.Errorf("the server was told anew: %s, then %s", expiries[2], expiries[11])
			}
			wide := *l
			wide.Window = 3 * time.Hour
			ask.Limit = &wide
			if err := store.Take(background, []limiter.Ask{ask}, result[:]); err != nil {
				t.Fatal(err)
			}
			if r := result[0]; expiryOf(t, store, l, ask.Key) < time.Duration(r.Now)*time.Microsecond+r.Reset {
				t.Errorf("with a window of 3h the key is gone before it is as good as new")
			}
		})
	}
}

// L10, L11: whatever is asked and changed, by whatever limits, a key is kept for as long as it matters.
func TestKeysAreKeptAsLongAsTheyMatter(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	store := open(t, s, Options{Secret: []byte("s")})
	random := rand.New(rand.NewPCG(7, 8))
	windows := []time.Duration{30 * time.Millisecond, time.Second, time.Minute, time.Hour, 40 * 24 * time.Hour}
	for i := range 6000 {
		a := algorithm.All[random.IntN(len(algorithm.All))]
		l := limitOf(a.Name(), []int64{1, 5, 200}[random.IntN(3)])
		l.Window = windows[random.IntN(len(windows))]
		if a.Name() == limiter.MinInterval {
			l.Events = 1
		}
		if random.IntN(6) == 0 && a.Name() != limiter.InFlight {
			l.Ceiling = 3 * l.Window
		}
		key := strconv.Itoa(random.IntN(4))
		if random.IntN(8) == 0 {
			change := limiter.Change{Limit: l, Key: key, Delta: random.Int64N(5) - 2}
			if err := store.Adjust(background, []limiter.Change{change}); err != nil {
				t.Fatal(err)
			}
		}
		ask := limiter.Ask{Limit: l, Key: key, Cost: 1, Lease: strconv.Itoa(random.IntN(9))}
		var result [1]limiter.Result
		if err := store.Take(background, []limiter.Ask{ask}, result[:]); err != nil {
			t.Fatal(err)
		}
		r := result[0]
		if !r.Allowed && l.Ceiling == 0 {
			continue // what was written before is kept as it was
		}
		at := expiryOf(t, store, l, key)
		needed := time.Duration(r.Now)*time.Microsecond + r.Reset
		if at == 0 && r.Reset > time.Second || at > 0 && at < needed {
			t.Fatalf("step %d, %s of %s: kept until %s, matters until %s", i, a.Name(), l.Window, at, needed)
		}
	}
}

// Keys of a window that was made smaller go soon after that, once it was counted in.
func TestKeysAreNotKeptForAWindowThatWas(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	store := open(t, s, Options{Secret: []byte("s")})
	for _, a := range algorithm.All {
		wide := limitOf(a.Name(), 1000)
		wide.Window = 40 * 24 * time.Hour
		narrow := *wide
		narrow.Window = 2 * time.Second
		if a.Name() == limiter.MinInterval {
			narrow.Window = time.Microsecond // so that it passes
		}
		for i, l := range []*limiter.Limit{wide, wide, &narrow} {
			ask := limiter.Ask{Limit: l, Key: a.Name(), Cost: min(100, l.Max()), Lease: strconv.Itoa(i)}
			if err := store.Take(background, []limiter.Ask{ask}, make([]limiter.Result, 1)); err != nil {
				t.Fatal(err)
			}
		}
		if left := time.Until(time.UnixMicro(expiryOf(t, store, wide, a.Name()).Microseconds())); left > 5*time.Minute {
			t.Errorf("%s: with a window of 2s the key is kept for %s more", a.Name(), left)
		}
	}
}

// A state does not say that it is kept for longer than the server was told, also where it cannot be told.
func TestKeysExpireWithoutTheRightToSaySo(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	s.Do("ACL SETUSER poor on >p ~* +@all -pexpire")
	poor := open(t, s, Options{Secret: []byte("s"), Username: "poor", Password: "p"})
	store := open(t, s, Options{Secret: []byte("s")})
	l := limitOf(limiter.SlidingLog, 5)
	take(t, poor, l, "k", 1)
	first := expiryOf(t, store, l, "k")
	if first == 0 {
		t.Error("the key has no expiry")
	}
	if _, err := tryTake(poor, l, "k", 1); !isUnavailable(err) {
		t.Errorf("got %v, want that the right to PEXPIRE is missing", err)
	}
	if r := take(t, store, l, "k", 1); r.Remaining != 3 {
		t.Errorf("%d left of 5 after 2", r.Remaining)
	}
	if then := expiryOf(t, store, l, "k"); then <= first {
		t.Errorf("kept until %s, was until %s: whoever has the right has not used it", then, first)
	}
}

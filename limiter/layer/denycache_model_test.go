package layer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/algorithm"
	"github.com/weirhq/caddy-weir/limiter/memstore"
	"github.com/weirhq/caddy-weir/limiter/storetest"
)

// steady returns a clock that goes on with another, but does not go back with it, as that of a
// process does not when the server's is set.
func steady(now func() time.Time) func() time.Time {
	var mu sync.Mutex
	start, last := now(), now()
	gone := time.Duration(0)
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		at := now()
		gone += max(at.Sub(last), 0)
		last = at
		return start.Add(gone)
	}
}

// renewing is a stack of layers, with the renewals of the store below it.
type renewing struct {
	limiter.Store
	limiter.Renewer
}

func TestDenyCacheContract(t *testing.T) {
	storetest.Exercise(t, func(t testing.TB, now func() time.Time) limiter.Store {
		store := memstore.New(memstore.Options{Now: now})
		return renewing{NewDenyCache(DenyCacheOptions{Size: 64, Now: steady(now)}).Around(store), store}
	})
}

// A twin is the same traffic at a store, and at another one behind a cache.
type twin struct {
	*rand.Rand
	t             *testing.T
	clock         *storetest.Clock
	plain, cached limiter.Store
	cache         *DenyCache
	limits        []*limiter.Limit
	hits, refused int
	heard         bool // whether what others tell is known to be heard
}

func newTwin(t *testing.T, seed uint64) *twin {
	w := &twin{Rand: rand.New(rand.NewPCG(seed, 1)), t: t, clock: storetest.NewClock()}
	open := func() limiter.Store { return memstore.New(memstore.Options{Now: w.clock.Now}) }
	w.plain = open()
	w.cache = NewDenyCache(DenyCacheOptions{
		Size: 16 * ways, Now: w.clock.Now, Hit: func() { w.hits++ },
	})
	w.cached = w.cache.Around(open())
	for i, alg := range algorithm.All {
		for j := range 3 {
			l := &limiter.Limit{
				Zone: "z" + strconv.Itoa(j), Algorithm: alg.Name(), Index: i,
				Events: 1 + w.Int64N(12), Window: time.Duration(1+w.IntN(20)) * time.Second,
			}
			switch {
			case alg.Name() == limiter.MinInterval:
				l.Events = 1
			case j == 1:
				l.Shadow = true
			case j == 2 && alg.Name() != limiter.InFlight && w.IntN(3) == 0:
				l.Ceiling = 2 * l.Window
			}
			w.limits = append(w.limits, l)
		}
	}
	return w
}

func (w *twin) key() string { return strconv.Itoa(w.IntN(4)) }

// step does the same to both.
func (w *twin) step(i int) {
	ctx := context.Background()
	w.clock.Advance(time.Duration(w.IntN(300)) * time.Millisecond)
	if w.heard {
		w.cache.Heard()
	}
	l := w.limits[w.IntN(len(w.limits))]
	switch w.IntN(40) {
	case 0:
		key := w.key()
		for _, s := range []limiter.Store{w.plain, w.cached} {
			if err := s.Reset(ctx, l, key); err != nil {
				w.t.Fatal(err)
			}
		}
	case 1, 2:
		if l.Algorithm == limiter.InFlight {
			return
		}
		change := limiter.Change{Limit: l, Key: w.key(), Delta: w.Int64N(7) - 4}
		for _, s := range []limiter.Store{w.plain, w.cached} {
			if err := s.Adjust(ctx, []limiter.Change{change}); err != nil {
				w.t.Fatal(err)
			}
		}
	case 3:
		// A reload with other numbers.
		raised := *l
		if raised.Algorithm != limiter.MinInterval {
			raised.Events = 1 + w.Int64N(12)
		}
		w.limits[w.IntN(len(w.limits))] = &raised
	default:
		w.take(i)
	}
}

func (w *twin) take(i int) {
	var asks []limiter.Ask
	seen := map[string]bool{}
	for range 1 + w.IntN(3) {
		l := w.limits[w.IntN(len(w.limits))]
		a := limiter.Ask{Limit: l, Key: w.key(), Cost: []int64{0, 1, 1, 1, 1, 2, 3, 13}[w.IntN(8)], Lease: fmt.Sprint(i)}
		if state := fmt.Sprint(l.Zone, l.Algorithm, l.Index, a.Key); !seen[state] {
			seen[state] = true
			asks = append(asks, a)
		}
	}
	results := make([]limiter.Result, len(asks))
	want, err := limiter.Take(context.Background(), w.plain, asks, make([]limiter.Result, len(asks)))
	if err != nil {
		w.t.Fatal(err)
	}
	got, err := limiter.Take(context.Background(), w.cached, asks, results)
	if err != nil {
		w.t.Fatal(err)
	}
	if got.Allowed != want.Allowed {
		w.t.Fatalf("step %d: %+v\ngot  %+v\nwant %+v", i, asks, got.Results, want.Results)
	}
	if !want.Allowed {
		w.refused++
	}
	for j, r := range results {
		if exact := want.Results[j]; r.Origin == limiter.Cached && !r.Allowed && (exact.Allowed || r.Wait > exact.Wait) {
			w.t.Fatalf("step %d, ask %d: %+v\nremembered %+v\nis really  %+v", i, j, asks[j], r, exact)
		}
	}
}

// Whatever comes in whatever order, a cache changes no decision: none is refused longer than
// it would be, and none passes early (L88 among them: numbers change on the way).
func TestDenyCacheIsExact(t *testing.T) {
	hits, refused := 0, 0
	for seed := range uint64(12) {
		w := newTwin(t, seed)
		w.heard = seed%2 == 0
		for i := range 4000 {
			w.step(i)
			if i%1000 == 0 {
				w.cache.Sweep(1)
			}
		}
		hits, refused = hits+w.hits, refused+w.refused
	}
	if hits < refused/20 {
		t.Errorf("%d hits in %d refusals: this shows little", hits, refused)
	}
}

// However many keys are refused, the cache takes the room that it was made with, and what it does
// not keep is asked of the store.
func TestDenyCacheIsBounded(t *testing.T) {
	store := memstore.New(memstore.Options{MaxKeys: 1 << 20})
	cache := NewDenyCache(DenyCacheOptions{Size: 1 << 10})
	s := cache.Around(store)
	l := &limiter.Limit{Zone: "z", Algorithm: limiter.FixedWindow, Events: 1, Window: time.Hour}
	for i := range 20_000 {
		key := strconv.Itoa(i)
		take(t, s, askOf(l, key, 1))
		if r := take(t, s, askOf(l, key, 1))[0]; r.Allowed {
			t.Fatalf("key %d: %+v", i, r)
		}
	}
	kept, _ := cache.filled()
	if kept > 1<<10 || kept < 1<<9 {
		t.Errorf("%d answers are kept, want at most %d and most of them", kept, 1<<10)
	}
	for i := range 20_000 {
		if r := take(t, s, askOf(l, strconv.Itoa(i), 1))[0]; r.Allowed {
			t.Fatalf("key %d: %+v", i, r)
		}
	}
}

// filled returns how many answers a cache keeps, and for how many it has room.
func (c *DenyCache) filled() (kept, room int) {
	for i := range c.shards {
		for j := range c.shards[i].sets {
			room += ways
			for _, id := range c.shards[i].sets[j].ids {
				if id != 0 {
					kept++
				}
			}
		}
	}
	return kept, room
}

// What gives way is what is over, then what accompanies a refusal, then what can be used for
// the shortest time.
func TestDenyCacheGivesWay(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	cache := NewDenyCache(DenyCacheOptions{Size: ways, Cap: time.Hour, Now: func() time.Time { return at }})
	keep := func(id uint64, until time.Duration, refused bool) {
		now := cache.now()
		cache.put(id, 0, &answer{cost: 1, asked: now, until: now + int64(until), refused: refused})
	}
	has := func(id uint64) bool {
		set := &cache.shards[0].sets[0]
		for i, other := range set.ids {
			if other == id && cache.now() < set.answers[i].until {
				return true
			}
		}
		return false
	}
	for id := range uint64(ways - 2) {
		keep(10+id, time.Minute, true)
	}
	keep(1, time.Minute, false)
	keep(2, time.Second, true)
	for _, step := range []struct {
		id      uint64
		until   time.Duration
		refused bool
		kept    bool
		gone    uint64
	}{
		{3, time.Minute, false, false, 0}, // others accompany a refusal as well
		{4, 2 * time.Second, true, true, 1},
		{5, time.Millisecond, true, false, 0}, // the first to be over
		{6, 2 * time.Minute, true, true, 2},
		{7, time.Second, false, false, 0},
	} {
		keep(step.id, step.until, step.refused)
		if has(step.id) != step.kept || step.gone != 0 && has(step.gone) {
			t.Errorf("%d for %s: kept %t, and %d has gone: %t", step.id, step.until, has(step.id), step.gone, !has(step.gone))
		}
	}
	at = at.Add(3 * time.Second) // number 4 is over
	keep(8, time.Second, false)
	if !has(8) {
		t.Error("what is over did not give way")
	}
}

func TestDenyCacheAllocations(t *testing.T) {
	s := NewDenyCache(DenyCacheOptions{}).Around(refusing{})
	hit, results := []limiter.Ask{askOf(limitOf(limiter.TokenBucket), "k", 1)}, make([]limiter.Result, 1)
	miss := []limiter.Ask{askOf(limitOf(limiter.InFlight), "k", 1)}
	take(t, s, hit...)
	for name, asks := range map[string][]limiter.Ask{"hit": hit, "miss": miss} {
		if n := testing.AllocsPerRun(100, func() { _ = s.Take(context.Background(), asks, results) }); n > 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
}

// refusing is a store that refuses everything for an hour.
type refusing struct{ limiter.Store }

func (refusing) Take(_ context.Context, asks []limiter.Ask, results []limiter.Result) error {
	for i := range asks {
		results[i] = limiter.Result{Max: asks[i].Limit.Max(), Wait: time.Hour, Reset: time.Hour}
	}
	return nil
}

func BenchmarkDenyCache(b *testing.B) {
	l := limitOf(limiter.TokenBucket)
	keys := make([]string, 1<<14)
	for i := range keys {
		keys[i] = "203.0.113." + strconv.Itoa(i)
	}
	for _, c := range []struct {
		name  string
		store limiter.Store
		keys  []string
	}{{"hit/hot", refusing{}, keys[:1]}, {"hit/spread", refusing{}, keys}, {"miss/spread", AllowAll{}, keys}} {
		b.Run(c.name, func(b *testing.B) {
			s := NewDenyCache(DenyCacheOptions{Cap: time.Hour}).Around(c.store)
			for _, key := range c.keys {
				take(b, s, askOf(l, key, 1))
			}
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				asks, results := []limiter.Ask{askOf(l, "", 1)}, make([]limiter.Result, 1)
				for i := rand.IntN(len(c.keys)); p.Next(); i++ {
					asks[0].Key = c.keys[i%len(c.keys)]
					_ = s.Take(context.Background(), asks, results)
				}
			})
		})
	}
	runtime.KeepAlive(keys)
}

package layer

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/redisstore"
)

// poll waits until something is so.
func poll(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); !done(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("never came: %s", what)
		}
	}
}

// guarded opens a store with a breaker and a stand-in that allows everything.
func guarded(t *testing.T, o redisstore.Options) (*Breaker, limiter.Store) {
	t.Helper()
	store, err := redisstore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	b := NewBreaker(store, BreakerOptions{Lane: store.Node, Outage: redisstore.Outage})
	t.Cleanup(func() {
		b.Close()
		store.Close()
	})
	return b, Fallback(AllowAll{})(b)
}

// local asks about keys from many goroutines, and returns how many the stand-in decided.
func local(t *testing.T, s limiter.Store, keys []string) map[string]bool {
	t.Helper()
	l := &limiter.Limit{Zone: "z", Algorithm: limiter.TokenBucket, Events: 1_000_000, Window: time.Hour}
	var mu sync.Mutex
	stoodIn := make(map[string]bool)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := i; j < len(keys); j += 8 {
				var r [1]limiter.Result
				if err := s.Take(context.Background(), []limiter.Ask{askOf(l, keys[j], 1)}, r[:]); err != nil {
					t.Error(err)
				}
				if r[0].Origin == limiter.Local {
					mu.Lock()
					stoodIn[keys[j]] = true
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return stoodIn
}

// A cluster that has lost a node: only what lies there is decided by the stand-in, and nobody
// waits for it, until a replica has taken its place (L91, L103).
func TestBreakerOfCluster(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Options{})
	b, s := guarded(t, redisstore.Options{Addresses: c.Addrs(), Timeout: 500 * time.Millisecond, Secret: []byte("s")})
	keys := make([]string, 240)
	for i := range keys {
		keys[i] = fmt.Sprint("key", i)
	}
	poll(t, "all nodes in use", func() bool { return len(local(t, s, keys)) == 0 })
	c.Masters[1].Kill()
	isOpenNow := func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.open == 1
	}
	var lost map[string]bool
	poll(t, "a breaker that opens for a node", func() bool { lost = local(t, s, keys); return isOpenNow() })
	// A third lies there, and all of it is lost, or already served by the replica.
	if n := len(lost); n > len(keys)/2 {
		t.Errorf("the stand-in decided %d of %d: more than a node's part", n, len(keys))
	}
	c.AwaitMaster(c.Replicas[1])
	poll(t, "the replica in use", func() bool { return len(local(t, s, keys)) == 0 })
}

// Sentinels put another master in the place of one that was lost, and it is found without any
// request (L95).
func TestBreakerOfSentinels(t *testing.T) {
	set := redistest.StartSentinels(t, redistest.Options{})
	b, s := guarded(t, redisstore.Options{
		Addresses: set.Addrs(), Sentinel: redistest.MasterName, Timeout: 500 * time.Millisecond, Secret: []byte("s"),
	})
	poll(t, "the master in use", func() bool { return len(local(t, s, []string{"k"})) == 0 })
	set.Servers[0].Kill()
	state := func() BreakerState {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.state()
	}
	poll(t, "an open breaker", func() bool { local(t, s, []string{"k"}); return state() == Open })
	set.AwaitMaster(set.Servers[0])
	poll(t, "a closed breaker", func() bool { return state() == Closed })
	if n := len(local(t, s, []string{"k"})); n != 0 {
		t.Error("the new master does not decide")
	}
}

package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
)

func isUnavailable(err error) bool { return errors.Is(err, limiter.ErrUnavailable) }

// eventually polls until try returns no error.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("after 20s still: %v", err)
		}
	}
}

// L92: a store may be there before its server.
func TestServerAppearsLater(t *testing.T) {
	s := redistest.Reserve(t, redistest.Options{})
	store := open(t, s, Options{Timeout: time.Second})
	l := limitOf(limiter.SlidingWindow, 10)
	if _, err := tryTake(store, l, "k", 1); !isUnavailable(err) {
		t.Fatalf("without a server: got %v", err)
	}
	if err := store.Ping(background); !isUnavailable(err) {
		t.Fatalf("without a server: Ping: got %v", err)
	}
	s.Restart()
	eventually(t, func() error { _, err := tryTake(store, l, "k", 1); return err })
	if err := store.Ping(background); err != nil {
		t.Error(err)
	}
}

// A script that the server has forgotten has not run: the one repetition counts once.
func TestForgottenScript(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	store := open(t, s, Options{})
	l := limitOf(limiter.SlidingWindow, 10)
	for left := int64(9); left >= 0; left-- {
		s.Do("SCRIPT FLUSH")
		if r := take(t, store, l, "k", 1); !r.Allowed || r.Remaining != left {
			t.Fatalf("got %+v, want %d left", r, left)
		}
	}
}

// After a restart everything is fresh, and all stores still agree on the names of keys.
func TestRestart(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	stores := []*Store{open(t, s, Options{}), open(t, s, Options{})}
	l := limitOf(limiter.FixedWindow, 1)
	take(t, stores[0], l, "k", 1)
	s.Restart()
	eventually(t, func() error { return stores[0].Ping(background) })
	eventually(t, func() error { return stores[1].Ping(background) })
	if r := take(t, stores[0], l, "k", 1); !r.Allowed {
		t.Errorf("the restarted server still counts: %+v", r)
	}
	if r := take(t, stores[1], l, "k", 1); r.Allowed {
		t.Errorf("the other store has another budget: %+v", r)
	}
	// One that never knew the first server learns the secret from the others.
	if r := take(t, open(t, s, Options{}), l, "k", 1); r.Allowed {
		t.Errorf("a new store has another budget: %+v", r)
	}
}

// A server that keeps running may lose the secret (FLUSHALL, eviction), and a store that
// never knew the old one may then be first to connect: all find to one secret again.
func TestLostSecret(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	old := open(t, s, Options{})
	l := limitOf(limiter.FixedWindow, 1)
	take(t, old, l, "k", 0)
	s.Do("FLUSHALL")
	young := open(t, s, Options{})
	take(t, young, l, "k", 1)
	old.renewAfter = 1 // as if the time were over
	eventually(t, func() error {
		if r := take(t, old, l, "k", 0); r.Wait == 0 {
			return fmt.Errorf("the old store has another budget: %+v", r)
		}
		return nil
	})
	s.Do("FLUSHALL")
	eventually(t, func() error {
		take(t, old, l, "k", 0)
		if s.Do("EXISTS weir:secret") != ":1" {
			return errors.New("the secret was not given back")
		}
		return nil
	})
	take(t, old, l, "k", 1)
	if r := take(t, open(t, s, Options{}), l, "k", 1); r.Allowed {
		t.Errorf("a new store has another budget: %+v", r)
	}
}

func TestKilled(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	store := open(t, s, Options{Timeout: 500 * time.Millisecond})
	l := limitOf(limiter.TokenBucket, 10)
	eventually(t, func() error { _, err := tryTake(store, l, "k", 1); return err })
	s.Kill()
	for range 5 {
		if _, err := tryTake(store, l, "k", 1); !isUnavailable(err) {
			t.Fatalf("got %v", err)
		}
	}
	s.Restart()
	eventually(t, func() error { _, err := tryTake(store, l, "k", 1); return err })
}

// L91, L104: a server that hangs holds a call up for no longer than the timeout, and a call
// that was given up is counted once at most.
func TestPaused(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	store := open(t, s, Options{Timeout: 50 * time.Millisecond})
	l := limitOf(limiter.FixedWindow, 100)
	eventually(t, func() error { _, err := tryTake(store, l, "k", 1); return err })
	before := take(t, open(t, s, Options{}), l, "k", 0).Remaining

	s.Pause()
	const calls = 10
	var longest time.Duration
	for range calls {
		start := time.Now()
		_, err := tryTake(store, l, "k", 1)
		longest = max(longest, time.Since(start))
		if !isUnavailable(err) {
			t.Errorf("got %v", err)
		}
	}
	if longest > time.Second {
		t.Errorf("a call took %s with a timeout of 50ms", longest)
	}
	t.Logf("longest call: %s", longest)
	s.Resume()

	r := take(t, open(t, s, Options{}), l, "k", 0)
	if used := before - r.Remaining; used < 0 || used > calls {
		t.Errorf("%d calls were counted as %d", calls, used)
	}
	eventually(t, func() error { _, err := tryTake(store, l, "k", 1); return err })
}

func TestLoading(t *testing.T) {
	s := redistest.Start(t, redistest.Options{Config: []string{"rdbcompression no"}})
	for i := range 20 {
		s.Do(fmt.Sprintf("SET key%d %s", i, strings.Repeat("x", 2000)))
	}
	s.Do("SAVE")
	// Loading takes a second, and the server answers meanwhile.
	s.Stop()
	s.Configure("key-load-delay 50000", "loading-process-events-interval-bytes 1024")
	s.Launch()
	store := open(t, s, Options{Timeout: time.Second})
	l := limitOf(limiter.SlidingWindow, 10)
	var seen error
	eventually(t, func() error {
		_, err := tryTake(store, l, "k", 1)
		if err != nil && strings.Contains(err.Error(), "still loading its data") {
			seen = err
		}
		return err
	})
	if !isUnavailable(seen) {
		t.Errorf("while it loaded: got %v", seen)
	}
}

// A full server refuses to write: nothing is half written, and it is lived through.
func TestOutOfMemory(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	store := open(t, s, Options{})
	l := limitOf(limiter.SlidingWindow, 10)
	take(t, store, l, "k", 1)
	s.Do("CONFIG SET maxmemory 100kb")
	_, err := tryTake(store, l, "k", 1)
	if !isUnavailable(err) || !strings.Contains(err.Error(), "memory is full") {
		t.Errorf("got %v", err)
	}
	s.Do("CONFIG SET maxmemory 0")
	if r := take(t, store, l, "k", 1); r.Remaining != 8 {
		t.Errorf("got %+v, want 8 left", r)
	}
}

// L95: a replica takes no writes.
func TestReplica(t *testing.T) {
	master := redistest.Start(t, redistest.Options{})
	s := redistest.Start(t, redistest.Options{})
	store := open(t, s, Options{})
	l := limitOf(limiter.SlidingWindow, 10)
	take(t, store, l, "k", 1)
	host, port, _ := strings.Cut(master.Addr(), ":")
	s.Do("REPLICAOF " + host + " " + port)
	if _, err := tryTake(store, l, "k", 1); !isUnavailable(err) {
		t.Errorf("got %v", err)
	}
	s.Do("REPLICAOF NO ONE")
	eventually(t, func() error { _, err := tryTake(store, l, "k", 1); return err })
}

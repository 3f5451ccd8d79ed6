package redisstore

import (
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/algorithm"
	"github.com/weirhq/caddy-weir/limiter/storetest"
)

// Rows L7, L8: the time that a script reads, and answers with, is exact to the microsecond.
func TestTimeIsExact(t *testing.T) {
	store := open(t, redistest.Start(t, redistest.Options{}), Options{})
	l := limitOf(limiter.FixedWindow, 1000)
	odd := false
	for range 50 {
		before := limiter.At(time.Now())
		now := take(t, store, l, "k", 1).Now
		if after := limiter.At(time.Now()); now < before || now > after {
			t.Fatalf("%d is not between %d and %d", now, before, after)
		}
		// With 14 digits all of them would be whole tenths of a millisecond.
		odd = odd || now%100 != 0
	}
	if !odd {
		t.Error("all times are multiples of 100 µs")
	}
}

// Rows L10, L17, L19: a state lives for as long as it matters and a second more, counted in
// milliseconds, however short that is.
func TestExpiryIsCountedInMilliseconds(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	store := open(t, s, Options{ClearKeys: true})
	for _, c := range []struct {
		events, burst int64
		window        time.Duration
		least, most   time.Duration
	}{
		{10_000, 100, time.Second, 900 * time.Millisecond, 1001 * time.Millisecond},
		{3, 3, 10 * time.Second, 4 * time.Second, 4334 * time.Millisecond},
		{1, 1, time.Hour, time.Hour, time.Hour + time.Second},
	} {
		l := &limiter.Limit{Zone: "api", Algorithm: limiter.TokenBucket, Events: c.events, Burst: c.burst, Window: c.window}
		s.Do("FLUSHALL")
		take(t, store, l, "k", 1)
		ttl := only(store).PTTL(background, store.names.build(store.hasher.Load(), tokenBucket, l, "k")).Val()
		if ttl < c.least || ttl > c.most {
			t.Errorf("%d/%s: lives for %s, want %s to %s", c.events, c.window, ttl, c.least, c.most)
		}
	}
}

// Row L11: a key that lost its expiry locks nobody out, since the state itself says when it is
// over, and the next ask that passes gives it one again.
func TestKeyWithoutExpiry(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	clock := storetest.NewClock()
	store := open(t, s, Options{ClearKeys: true, Now: clock.Now})
	for _, a := range algorithm.All {
		l := limitOf(a.Name(), 1)
		kind, err := kindOf(l.Algorithm)
		if err != nil {
			t.Fatal(err)
		}
		key := store.names.build(store.hasher.Load(), kind, l, "k")
		first := limiter.Ask{Limit: l, Key: "k", Cost: 1, Lease: "one"}
		second := limiter.Ask{Limit: l, Key: "k", Cost: 1, Lease: "two"}
		ask := func(ask limiter.Ask) bool {
			var r [1]limiter.Result
			if err := store.Take(background, []limiter.Ask{ask}, r[:]); err != nil {
				t.Fatal(err)
			}
			return r[0].Allowed
		}
		if !ask(first) {
			t.Fatalf("%s: the first ask was refused", a.Name())
		}
		s.Do("PERSIST " + key)
		if ask(second) {
			t.Errorf("%s: passed within the window", a.Name())
		}
		clock.Advance(2 * l.Window)
		if !ask(second) {
			t.Errorf("%s: locked out by a key without expiry", a.Name())
		}
		if ttl := only(store).PTTL(background, key).Val(); ttl <= 0 {
			t.Errorf("%s: lives for %s", a.Name(), ttl)
		}
	}
}

// A gap stands between a store and its server. It lets commands through, and replies only
// while it is whole.
type gap struct {
	net.Listener
	server string
	state  atomic.Int32
	conns  sync.WaitGroup
}

// What becomes of replies.
const (
	whole  = iota // they arrive
	silent        // they never come
	broken        // the connection ends in place of the next one
)

func newGap(t *testing.T, server string) *gap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gap{Listener: l, server: server}
	g.conns.Go(g.serve)
	return g
}

func (g *gap) serve() {
	for {
		client, err := g.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", g.server)
		if err != nil {
			client.Close()
			continue
		}
		g.conns.Go(func() {
			_, _ = io.Copy(server, client) // ends when the client hangs up
			server.Close()
		})
		g.conns.Go(func() {
			_, _ = io.Copy(replies{g, client}, server)
			client.Close()
		})
	}
}

// replies is how a client is written to over a gap.
type replies struct {
	g      *gap
	client net.Conn
}

func (r replies) Write(p []byte) (int, error) {
	switch r.g.state.Load() {
	case silent:
		return len(p), nil
	case broken:
		r.g.state.Store(whole)
		return 0, io.ErrClosedPipe
	}
	return r.client.Write(p)
}

// Rows L49, L104: when the reply is lost after the script ran, nobody asks again: each request
// is charged once, neither more nor less, and nothing waits to be charged later.
func TestLostReplies(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	g := newGap(t, s.Addr())
	far := open(t, s, Options{Addresses: []string{g.Addr().String()}, Secret: []byte("s"), Timeout: 500 * time.Millisecond})
	near := open(t, s, Options{Secret: []byte("s")})
	t.Cleanup(func() {
		far.Close()
		g.Close()
		g.conns.Wait()
	})
	l := limitOf(limiter.FixedWindow, 100)
	for _, state := range []int32{silent, broken} {
		// A connection is made, and the script known, while replies come.
		eventually(t, func() error { _, err := tryTake(far, l, "k", 1); return err })
		before := take(t, near, l, "k", 0).Remaining
		g.state.Store(state)
		if _, err := tryTake(far, l, "k", 1); !isUnavailable(err) {
			t.Fatalf("state %d: without a reply: got %v", state, err)
		}
		if left := take(t, near, l, "k", 0).Remaining; left != before-1 {
			t.Errorf("state %d: one request without a reply: %d left of %d", state, left, before)
		}
		g.state.Store(whole)
		eventually(t, func() error { _, err := tryTake(far, l, "k", 0); return err })
		if left := take(t, near, l, "k", 0).Remaining; left != before-1 {
			t.Errorf("state %d: after the replies are back: %d left of %d", state, left, before)
		}
	}
}

// Row L94: however many ask at once, a store never holds more connections than its pool, nor
// does it while it finds its way back after an outage.
func TestPoolIsBounded(t *testing.T) {
	const size = 4
	s := redistest.Start(t, redistest.Options{})
	store := open(t, s, Options{PoolSize: size, Timeout: 2 * time.Second})
	l := limitOf(limiter.TokenBucket, limiter.MaxEvents)
	storm := func() {
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { _, _ = tryTake(store, l, "k", 1) }) // an outage is what is wanted here
		}
		wg.Wait()
	}
	held := func() int {
		// The one that asks is not ours.
		return strings.Count(s.Do("CLIENT LIST"), "name=") - 1
	}
	storm()
	if n := held(); n < 1 || n > size {
		t.Errorf("%d connections, want 1 to %d", n, size)
	}
	s.Kill()
	storm()
	s.Restart()
	storm()
	eventually(t, func() error { _, err := tryTake(store, l, "k", 1); return err })
	if n := held(); n > size {
		t.Errorf("%d connections after an outage, want at most %d", n, size)
	}
}

// Row L95: a connection to a server that became a replica is not used again.
func TestReplicaConnectionIsDropped(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	store := open(t, s, Options{PoolSize: 1})
	l := limitOf(limiter.FixedWindow, 10)
	id := func() int64 {
		t.Helper()
		n, err := only(store).ClientID(background).Result()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	take(t, store, l, "k", 1)
	before := id()
	if again := id(); again != before {
		t.Fatalf("connections %d and %d, want one", before, again)
	}
	s.Do("REPLICAOF 127.0.0.1 1")
	if _, err := tryTake(store, l, "k", 1); !isUnavailable(err) || !strings.Contains(err.Error(), "replica") {
		t.Errorf("got %v", err)
	}
	s.Do("REPLICAOF NO ONE")
	if after := id(); after == before {
		t.Error("the connection to the replica is still in use")
	}
}

// Row L98: all states of one subject have one hash tag, whatever the zone, and so one slot in a
// cluster; other subjects have others.
func TestSubjectsHaveOneTag(t *testing.T) {
	store := open(t, redistest.Start(t, redistest.Options{}), Options{Secret: []byte("s")})
	tag := func(zone string, kind int, index int, key string) string {
		l := &limiter.Limit{Zone: zone, Algorithm: kinds[kind].name, Index: index}
		_, rest, _ := strings.Cut(store.names.build(store.hasher.Load(), kind, l, key), "{")
		tag, _, ok := strings.Cut(rest, "}")
		if !ok || tag == "" {
			t.Fatalf("zone %q: no tag", zone)
		}
		return tag
	}
	want := tag("api", 0, 0, "k")
	for kind := range kinds {
		for _, zone := range []string{"api", "@a {b} 1/s", "}", "{x}"} {
			if got := tag(zone, kind, kind, "k"); got != want {
				t.Errorf("zone %q: tag %s, want %s", zone, got, want)
			}
			if got := tag(zone, kind, kind, "other"); got == want {
				t.Errorf("zone %q: another subject has the same tag", zone)
			}
		}
	}
}

// Row L100: every command of every script names a key that was declared.
func TestKeysAreDeclared(t *testing.T) {
	calls := regexp.MustCompile(`call\('([A-Z]+)'(?:, ([^,)]+))?`)
	keys := regexp.MustCompile(`(?m)^\s*(?:local )?key\b[^(=\n]*=([^=\n]*)`)
	check := func(s *script) {
		found := calls.FindAllStringSubmatch(s.text, -1)
		if len(found) != strings.Count(s.text, "call('") || len(found) < 3 {
			t.Fatalf("%d of %d commands are understood", len(found), strings.Count(s.text, "call('"))
		}
		for _, m := range found {
			if m[1] != "TIME" && m[2] != "key" {
				t.Errorf("%s has a key %q that may not be declared", m[1], m[2])
			}
		}
		// And key is nothing else than one of KEYS.
		for _, m := range keys.FindAllStringSubmatch(s.text, -1) {
			if !strings.HasPrefix(strings.TrimSpace(m[1]), "KEYS[i]") {
				t.Errorf("a key is made up: %s", m[0])
			}
		}
	}
	const shared = set(1 << 4) // min_interval has its twin in token_bucket
	for s := set(1); s < 1<<len(kinds); s++ {
		if s&shared != 0 {
			continue
		}
		check(takeScript(s))
		check(adjustScript(s))
	}
	check(leaseScript)
}

// Row L97: a policy that may forget clients at their limit is told of; one that cannot is not.
func TestEvictionIsTold(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	store := open(t, s, Options{})
	for policy, want := range map[string]bool{
		"noeviction": false, "volatile-ttl": false, "volatile-lru": false, "allkeys-lru": true, "allkeys-random": true,
	} {
		s.Do("CONFIG SET maxmemory-policy " + policy)
		found, err := store.Inspect(background)
		if err != nil {
			t.Fatal(err)
		}
		told := false
		for _, w := range found {
			told = told || w.Message == evicts && w.Detail == policy
		}
		if told != want || len(found) > 1 {
			t.Errorf("%s: told of %+v", policy, found)
		}
	}
}

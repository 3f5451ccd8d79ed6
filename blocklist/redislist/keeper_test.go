package redislist

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/blocklist/keepertest"
	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/redisstore"
)

// hasty are waits for tests that cannot wait a minute.
var hasty = waits{poll: 300 * time.Millisecond, quiet: 200 * time.Millisecond, retry: 10 * time.Millisecond, patience: 100 * time.Millisecond}

// fresh returns options under a prefix that nobody else has.
func fresh(addrs ...string) redisstore.Options {
	return redisstore.Options{Addresses: addrs, Prefix: fmt.Sprintf("t%x:", rand.Uint64())}
}

func open(t testing.TB, o redisstore.Options) *Keeper {
	t.Helper()
	k, err := Open(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	return k
}

func TestKeeper(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	keepertest.Exercise(t, func(t *testing.T) func() blocklist.Keeper {
		o := fresh(server.Addr())
		return func() blocklist.Keeper { return open(t, o) }
	})
}

// The rights that docs/redis.md names are enough for all of it.
func TestKeeperWithDocumentedRights(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "redis.md"))
	if err != nil {
		t.Fatal(err)
	}
	user := regexp.MustCompile("(?m)^ACL SETUSER weir .*$").Find(text)
	if user == nil {
		t.Fatal("docs/redis.md names no rights")
	}
	server := redistest.Start(t, redistest.Options{})
	server.Do(strings.ReplaceAll(string(user), "weir:*", "*"))
	with := func(o redisstore.Options) redisstore.Options {
		o.Username, o.Password = "weir", "password"
		return o
	}
	keepertest.Exercise(t, func(t *testing.T) func() blocklist.Keeper {
		o := with(fresh(server.Addr()))
		return func() blocklist.Keeper { return open(t, o) }
	})
	o := with(fresh(server.Addr()))
	follower := open(t, o)
	follower.wait = hasty
	w := keepertest.Follow(t, follower)
	put(t, open(t, o), "a")
	w.Await(t, "followed", has("a"))
	server.Do("FLUSHALL")
	keepertest.Follow(t, open(t, o)).Await(t, "given back", has("a"))
	if denied := server.Do("ACL LOG"); strings.Contains(denied, "reason") {
		t.Errorf("the server denied %s", denied)
	}
}

func TestKeeperInCluster(t *testing.T) {
	set := redistest.StartCluster(t, redistest.Options{})
	keepertest.Exercise(t, func(t *testing.T) func() blocklist.Keeper {
		o := fresh(set.Addrs()...)
		return func() blocklist.Keeper { return open(t, o) }
	})
}

func change(t testing.TB, names ...string) blocklist.Change {
	t.Helper()
	c := blocklist.Change{By: "tester"}
	for _, name := range names {
		c.Put = append(c.Put, keepertest.Rule(t, name+" path=/"+name))
	}
	return c
}

func put(t testing.TB, k *Keeper, names ...string) uint64 {
	t.Helper()
	v, err := k.Apply(t.Context(), change(t, names...))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// raw writes past the script, as nobody should.
func raw(t testing.TB, k *Keeper, what, field, value string) {
	t.Helper()
	key := k.name(what)
	if err := k.wire.Do(t.Context(), key, "hset", key, field, value).Err(); err != nil {
		t.Fatal(err)
	}
}

func has(names ...string) func(blocklist.Content) bool {
	return func(c blocklist.Content) bool {
		var got []string
		for _, r := range c.Rules {
			got = append(got, r.Name)
		}
		return strings.Join(got, " ") == strings.Join(names, " ")
	}
}

// The servers of sentinels may change under the list.
func TestFailover(t *testing.T) {
	set := redistest.StartSentinels(t, redistest.Options{})
	o := fresh(set.Addrs()...)
	o.Sentinel = redistest.MasterName
	k, follower := open(t, o), open(t, o)
	follower.wait = hasty
	put(t, k, "a")
	w := keepertest.Follow(t, follower)
	w.Await(t, "before", has("a"))
	old := set.Master()
	set.Failover()
	set.AwaitMaster(old)
	for {
		_, err := k.Apply(t.Context(), change(t, "b"))
		if err == nil {
			break
		}
		if t.Context().Err() != nil || !errors.Is(err, limiter.ErrUnavailable) {
			t.Fatal(err)
		}
	}
	w.Await(t, "after", has("a", "b"))
}

// B46: a server that is away at the start, or goes away, leaves what there was, and is followed again
// once it is back.
func TestAway(t *testing.T) {
	server := redistest.Reserve(t, redistest.Options{Config: []string{"appendonly yes"}})
	o := fresh(server.Addr())
	k, follower := open(t, o), open(t, o)
	follower.wait = hasty
	if _, err := k.Apply(t.Context(), change(t, "a")); !errors.Is(err, limiter.ErrUnavailable) || errors.Is(err, blocklist.ErrRefused) {
		t.Errorf("a change while it is away: %v", err)
	}
	w := keepertest.Follow(t, follower)
	w.AwaitTrouble(t, true)
	server.Launch()
	w.AwaitTrouble(t, false)
	put(t, k, "a")
	w.Await(t, "at last", has("a"))

	server.Stop()
	w.AwaitTrouble(t, true)
	if c := w.Content(); !has("a")(c) {
		t.Errorf("while it is away: %v", c.Rules)
	}
	server.Launch()
	w.AwaitTrouble(t, false)
	for range 10 { // the pool may hold dead connections
		if _, err := k.Apply(t.Context(), change(t, "b")); err == nil {
			break
		}
	}
	w.Await(t, "back again", has("a", "b"))
}

// A server that stands still is an error within a bound, and the subscription to it is found dead.
func TestPaused(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	o := fresh(server.Addr())
	k, follower := open(t, o), open(t, o)
	follower.wait = hasty
	put(t, k, "a")
	w := keepertest.Follow(t, follower)
	w.Await(t, "before", has("a"))
	server.Pause()
	w.AwaitTrouble(t, true)
	server.Resume()
	put(t, k, "b")
	w.Await(t, "after", has("a", "b"))
}

// What was sent to a server that stands still it does once it goes on: the error says so. One that is not there
// did nothing.
func TestOutcomeUnknown(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	k := open(t, fresh(server.Addr()))
	put(t, k, "a")
	const unknown = "whether the change was made is not known"
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := k.Apply(ctx, change(t, "b")); err == nil || !strings.Contains(err.Error(), unknown) {
		t.Errorf("of a server that stands still: %v", err)
	}
	server.Resume()
	if content, err := k.Load(t.Context()); err != nil || !has("a", "b")(content) {
		t.Errorf("after that: %q, %v", content.Rules, err)
	}
	server.Kill()
	away := open(t, fresh(server.Addr()))
	if _, err := away.Apply(t.Context(), change(t, "c")); err == nil || strings.Contains(err.Error(), unknown) {
		t.Errorf("of a server that is not there: %v", err)
	}
}

// Missed messages are made up for by looking.
func TestPolling(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	o := fresh(server.Addr())
	k, follower := open(t, o), open(t, o)
	follower.wait = hasty
	put(t, k, "a")
	w := keepertest.Follow(t, follower)
	w.Await(t, "before", has("a"))
	rule := keepertest.Rule(t, "b path=/b created=2100-01-01T00:00:00Z")
	raw(t, k, "rules", "b", rule.String())
	raw(t, k, "state", "version", "5")
	w.Await(t, "unheard of", func(c blocklist.Content) bool { return has("a", "b")(c) && c.Version == 5 })
}

// What a newer version of us wrote is told of, and does not keep the rest from being read.
func TestUnreadable(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	k := open(t, fresh(server.Addr()))
	put(t, k, "a")
	raw(t, k, "rules", "new", "new shape=round")
	c, err := k.Load(t.Context())
	var bad *Unreadable
	if !errors.As(err, &bad) || !strings.Contains(err.Error(), "shape") || !has("a")(c) {
		t.Errorf("%v, %v", c.Rules, err)
	}
	// That it is so is told for as long as it is.
	follower := open(t, fresh(server.Addr()))
	follower.name, follower.wait = k.name, hasty
	w := keepertest.Follow(t, follower)
	w.Await(t, "what can be read", has("a"))
	w.Await(t, "told again", func(blocklist.Content) bool { return len(w.Troubles()) > 2 })
	for _, err := range w.Troubles() {
		if !errors.As(err, &bad) {
			t.Errorf("told %v", err)
		}
	}
	if _, err := k.Apply(t.Context(), blocklist.Change{By: "x", Remove: []string{"new"}}); err != nil {
		t.Fatal(err)
	}
	w.AwaitTrouble(t, false)
}

// What is long is not told to everybody, but fetched.
func TestLongChange(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	o := fresh(server.Addr())
	k := open(t, o)
	put(t, k, "a")
	w := keepertest.Follow(t, open(t, o))
	w.Await(t, "before", has("a"))
	c := change(t, "long")
	for i := range 20_000 {
		c.Put[0].Fields[0].Patterns = append(c.Put[0].Fields[0].Patterns, fmt.Sprint("/long/", i))
	}
	if _, err := k.Apply(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	got := w.Await(t, "long", has("a", "long"))
	if n := len(got.Rules[1].Fields[0].Patterns); n != 20_001 {
		t.Errorf("%d patterns", n)
	}
}

// B10, B16: what is over goes by itself, a little with each change, and of too many bans those that end first.
func TestBounds(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	o := fresh(server.Addr())
	k := open(t, o)
	now := time.Now()
	c := blocklist.Change{By: "x", Put: []blocklist.Rule{keepertest.Rule(t, "over path=/")}}
	c.Put[0].Expires = now.Add(-time.Second)
	for i := range 10 {
		c.Ban = append(c.Ban, blocklist.Ban{Key: fmt.Sprint("k", i), Origin: "o", Until: now.Add(time.Duration(i-2) * time.Hour)})
	}
	if _, err := k.Apply(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	w := keepertest.Follow(t, open(t, o))
	w.Await(t, "all", func(c blocklist.Content) bool { return c.Bans.Len() == 10 })
	k.bounds.bans = 5
	put(t, k, "a")
	got, err := k.Load(t.Context())
	if err != nil || !has("a")(got) || got.Bans.Len() != 5 {
		t.Fatalf("%d rules, %d bans, %v", len(got.Rules), got.Bans.Len(), err)
	}
	for b := range got.Bans.All() {
		if b.Until.Before(now.Add(2 * time.Hour)) {
			t.Errorf("%s was kept, which ends at %s", b.Key, b.Until)
		}
	}
	k.bounds.rules = 1
	if _, err := k.Apply(t.Context(), change(t, "b")); !errors.Is(err, blocklist.ErrRefused) || !strings.Contains(err.Error(), "at most 1") {
		t.Errorf("one rule more: %v", err)
	}
	put(t, k, "a") // in the place of itself
	w.Await(t, "what was pushed out", func(c blocklist.Content) bool { return c.Sweep(now).Bans.Len() == 5 })
}

// Names are those that the store gives, by the one secret, and none is made by asking.
func TestName(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	o := fresh(server.Addr())
	k := open(t, o)
	if _, err := k.Name(t.Context(), "192.0.2.1"); !errors.Is(err, limiter.ErrUnavailable) {
		t.Errorf("without a secret: %v", err)
	}
	if got := server.Do("EXISTS " + o.Prefix + "secret"); got != ":0" {
		t.Errorf("a secret was made: %s", got)
	}
	for _, how := range []func(*redisstore.Options){
		func(*redisstore.Options) {},
		func(o *redisstore.Options) { o.Secret = []byte("of our own") },
		func(o *redisstore.Options) { o.ClearKeys = true },
	} {
		o := o
		how(&o)
		s, err := redisstore.New(o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for s.Ping(context.Background()) != nil && t.Context().Err() == nil {
		}
		want, known := s.AppendName(nil, "192.0.2.1")
		got, err := open(t, o).Name(t.Context(), "192.0.2.1")
		if !known || err != nil || got != string(want) {
			t.Errorf("%q (%v), want %q (%v)", got, err, want, known)
		}
		if o.ClearKeys && got != "192.0.2.1" {
			t.Errorf("in clear: %q", got)
		}
	}
}

// BenchmarkReach measures how long it takes until a change that one node makes is known to another.
func BenchmarkReach(b *testing.B) {
	server := redistest.Start(b, redistest.Options{})
	o := fresh(server.Addr())
	k := open(b, o)
	w := keepertest.Follow(b, open(b, o))
	took := make([]time.Duration, 0, b.N)
	for i := 0; b.Loop(); i++ {
		begun := time.Now()
		v, err := k.Apply(b.Context(), change(b, fmt.Sprint("r", i%100)))
		if err != nil {
			b.Fatal(err)
		}
		w.Await(b, "the change", func(c blocklist.Content) bool { return c.Version >= v })
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
}

package redislist

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/blocklist/keepertest"
	"github.com/weirhq/caddy-weir/internal/redistest"
)

// A server that lost everything is given the list back, and nobody is told of an empty one.
func TestServerLosesAll(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	o := fresh(server.Addr())
	k, follower := open(t, o), open(t, o)
	follower.wait = hasty
	put(t, k, "a", "b")
	ban := blocklist.Ban{Key: "k", Origin: "o", Until: time.Now().Add(time.Hour)}
	off := blocklist.DryRun
	if _, err := k.Apply(t.Context(), blocklist.Change{By: "x", Mode: &off, Ban: []blocklist.Ban{ban}}); err != nil {
		t.Fatal(err)
	}
	w := keepertest.Follow(t, follower)
	w.Await(t, "before", func(c blocklist.Content) bool { return c.Version == 2 })
	server.Do("FLUSHALL")
	late := keepertest.Follow(t, open(t, o))
	late.Await(t, "given back", func(c blocklist.Content) bool {
		return has("a", "b")(c) && c.Bans.Len() == 1 && c.Mode == blocklist.DryRun && c.Version >= 2
	})
	if c := w.Content(); !has("a", "b")(c) {
		t.Errorf("who gave it back: %v", c.Rules)
	}
}

// A list that was lost and begun anew, before anybody looked, gets what it had, and keeps what was
// made since.
func TestServerLosesAllUnseen(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	o := fresh(server.Addr())
	k := open(t, o)
	put(t, k, "a", "b")
	put(t, k, "c")
	put(t, k, "d")
	w := keepertest.Follow(t, open(t, o))
	w.Await(t, "before", func(c blocklist.Content) bool { return c.Version == 3 })
	server.Do("FLUSHALL")
	if v := put(t, k, "b", "new"); v != 1 {
		t.Fatalf("version %d of a list that was lost", v)
	}
	got := w.Await(t, "given back", has("a", "c", "d", "b", "new"))
	if got.Version != 4 {
		t.Errorf("version %d", got.Version)
	}
	late := keepertest.Follow(t, open(t, o))
	late.Await(t, "all of it is there", func(c blocklist.Content) bool { return has("a", "c", "d", "b", "new")(c) && c.Version == 4 })
}

// What the watch of one configuration saw, that of the next one gives back.
func TestServerLosesAllBetweenWatches(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	k := open(t, fresh(server.Addr()))
	put(t, k, "a")
	ctx, cancel := context.WithCancel(t.Context())
	if err := k.Watch(ctx, func(blocklist.Content) { cancel() }, nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	server.Do("FLUSHALL")
	keepertest.Follow(t, k).Await(t, "given back", has("a"))
}

// So does one that has come as far as the one that was lost.
func TestServerLosesAllAtOneVersion(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	o := fresh(server.Addr())
	k := open(t, o)
	w := keepertest.Follow(t, open(t, o))
	w.Await(t, "before all", func(blocklist.Content) bool { return true })
	put(t, k, "a")
	w.Await(t, "before", has("a"))
	server.Do("FLUSHALL")
	put(t, k, "b")
	w.Await(t, "given back", has("a", "b"))
}

// A replica that is behind and becomes the master is what there is: what was taken out there is
// not put back by those who knew it longer.
func TestServerFallsBehind(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	o := fresh(server.Addr())
	k, follower := open(t, o), open(t, o)
	follower.wait = hasty
	put(t, k, "a", "b")
	w := keepertest.Follow(t, follower)
	w.Await(t, "before", has("a", "b"))
	for range 4 {
		put(t, k, "b")
	}
	w.Await(t, "all changes", func(c blocklist.Content) bool { return c.Version == 5 })
	raw(t, k, "state", "version", "1")
	if _, err := k.Apply(t.Context(), blocklist.Change{By: "tester", Remove: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	w.Await(t, "what the server says", func(c blocklist.Content) bool { return has("b")(c) && c.Version == 2 })
}

package redislist

import (
	"context"
	"errors"
	"fmt"
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

// known follows a list with a keeper until it is as wanted, and no longer: the keeper then knows what a node knows that
// was away since, or that has it from its disk.
func known(t *testing.T, k *Keeper, ok func(blocklist.Content) bool) *Keeper {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := k.Watch(ctx, func(c blocklist.Content) {
		if ok(c) {
			cancel()
		}
	}, nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return k
}

func remove(t *testing.T, k *Keeper, name string) {
	t.Helper()
	if _, err := k.Apply(t.Context(), blocklist.Change{By: "tester", Remove: []string{name}}); err != nil {
		t.Fatal(err)
	}
}

// A new list that came further than the one that was lost, before anybody looked, is another one all the same.
func TestServerLosesAllAndGoesFurther(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	o := fresh(server.Addr())
	k := open(t, o)
	put(t, k, "a", "b")
	one, two := known(t, open(t, o), has("a", "b")), known(t, open(t, o), has("a", "b"))
	server.Do("FLUSHALL")
	for i := range 3 {
		ban := blocklist.Ban{Key: "k", Origin: "z", Zone: "z", Until: time.Now().Add(time.Duration(i+1) * time.Hour)}
		if _, err := k.Apply(t.Context(), blocklist.Change{By: "zone z", Auto: true, Ban: []blocklist.Ban{ban}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range []*Keeper{one, two} {
		got := keepertest.Follow(t, k).Await(t, "given back", has("a", "b"))
		if got.Version <= 3 || got.Bans.Len() != 1 {
			t.Errorf("version %d, %d bans", got.Version, got.Bans.Len())
		}
	}
}

// Who is interrupted while he gives back begins again, and leaves nobody to believe that it was all.
func TestRestorationIsInterrupted(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	o := fresh(server.Addr())
	k := open(t, o)
	const rules = 25_000
	for from := 0; from < rules; from += 5000 {
		var names []string
		for i := range 5000 {
			names = append(names, fmt.Sprint("r", from+i))
		}
		put(t, k, names...)
	}
	ban := blocklist.Ban{Key: "k", Origin: "o", Until: time.Now().Add(time.Hour)}
	if _, err := k.Apply(t.Context(), blocklist.Change{By: "x", Ban: []blocklist.Ban{ban}}); err != nil {
		t.Fatal(err)
	}
	whole := func(c blocklist.Content) bool { return len(c.Rules) == rules && c.Bans.Len() == 1 }
	giver, other := known(t, open(t, o), whole), known(t, open(t, o), whole)
	server.Do("FLUSHALL")

	ctx, cancel := context.WithCancel(t.Context())
	giver.now = func() time.Time {
		if server.Do("HLEN "+giver.name("rules")) != ":0" {
			cancel() // after the first gift
		}
		return time.Now()
	}
	told := 0
	err := giver.Watch(ctx, func(blocklist.Content) { told++ }, nil)
	there, loadErr := k.Load(t.Context())
	if !errors.Is(err, context.Canceled) || loadErr != nil || told > 0 || len(there.Rules) == 0 || whole(there) {
		t.Fatalf("not interrupted: %d rules, %d bans, %v, %v", len(there.Rules), there.Bans.Len(), err, loadErr)
	}
	giver.now = time.Now
	for _, k := range []*Keeper{other, giver, open(t, o)} {
		keepertest.Follow(t, k).Await(t, "all of it", whole)
	}
}

// Many nodes that give back at once come to one list, and stay with it.
func TestManyRestoreAtOnce(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	o := fresh(server.Addr())
	k := open(t, o)
	put(t, k, "a", "b", "c")
	var nodes []*keepertest.Watched
	for range 6 {
		node := open(t, o)
		node.wait = hasty
		nodes = append(nodes, keepertest.Follow(t, node))
	}
	for _, w := range nodes {
		w.Await(t, "before", has("a", "b", "c"))
	}
	for round := range 5 {
		server.Do("FLUSHALL")
		for _, w := range nodes {
			w.Await(t, "given back", func(c blocklist.Content) bool {
				there, err := k.Load(t.Context())
				return err == nil && there.Version > 0 && there.Born == c.Born && there.Version == c.Version && has("a", "b", "c")(c)
			})
		}
		t.Logf("round %d: version %d", round, nodes[0].Content().Version)
	}
	remove(t, k, "b")
	for _, w := range nodes {
		w.Await(t, "removed", has("a", "c"))
	}
	put(t, k, "d")
	for _, w := range nodes {
		w.Await(t, "and it stays so", has("a", "c", "d"))
	}
}

// What was removed while a node was away does not come back with it; and what was added is not lost if
// the one that was away is the first to give back.
func TestStaleNodeRestores(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	o := fresh(server.Addr())
	nodes := func() (k, stale, recent *Keeper) {
		k = open(t, o)
		put(t, k, "a", "b")
		stale = known(t, open(t, o), has("a", "b"))
		remove(t, k, "a")
		put(t, k, "c")
		recent = known(t, open(t, o), has("b", "c"))
		server.Do("FLUSHALL")
		return k, stale, recent
	}

	k, stale, recent := nodes()
	a := keepertest.Follow(t, recent)
	a.Await(t, "given back", has("b", "c"))
	b := keepertest.Follow(t, stale)
	b.Await(t, "the recent one was first", has("b", "c"))
	remove(t, k, "b")
	a.Await(t, "one list", has("c"))
	b.Await(t, "one list", has("c"))

	o = fresh(server.Addr())
	_, stale, recent = nodes()
	b = keepertest.Follow(t, stale)
	b.Await(t, "given back", has("a", "b"))
	a = keepertest.Follow(t, recent)
	a.Await(t, "the stale one was first", has("a", "b", "c"))
	b.Await(t, "one list", has("a", "b", "c"))
}

// A node that knows only the list that was begun after the loss takes what is given to it.
func TestRestoredUnderWhoKnewNothing(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	o := fresh(server.Addr())
	k := open(t, o)
	put(t, k, "a", "b")
	old := known(t, open(t, o), has("a", "b"))
	server.Do("FLUSHALL")
	put(t, k, "n")
	young := keepertest.Follow(t, open(t, o))
	young.Await(t, "what there is", has("n"))
	first := keepertest.Follow(t, old)
	for _, w := range []*keepertest.Watched{first, young} {
		w.Await(t, "given back", has("a", "b", "n"))
	}
	remove(t, k, "a")
	for _, w := range []*keepertest.Watched{first, young} {
		w.Await(t, "one list", has("b", "n"))
	}
}

// A list that is lost while it is read is read again: half of the old one under its name would pass for it.
func TestServerLosesAllWhileRead(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	k := open(t, fresh(server.Addr()))
	put(t, k, "a")
	name := k.name
	k.name = func(what string) string {
		if what == "rules" {
			server.Do("FLUSHALL")
		}
		return name(what)
	}
	if got, err := k.Load(t.Context()); err != nil || got.Version != 0 || got.Born != "" {
		t.Errorf("version %d of %q with %d rules, %v", got.Version, got.Born, len(got.Rules), err)
	}
}

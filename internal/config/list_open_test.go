package config

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
)

// countingRights are those of docs/redis.md without the ones for the list.
const countingRights = "~weir:* &weir:* +eval +evalsha +get +set +getrange +setrange +del +strlen +pexpire +time +select +ping +pfadd +pfcount +publish +subscribe +info"

// awaits waits until something is so.
func awaits(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// A list on Redis is opened by what needs it and by nothing else.
func TestListIsOpenedByNeed(t *testing.T) {
	ownData(t)
	server := redistest.Start(t, redistest.Options{})
	redis := `"redis": {"addresses": ["` + server.Addr() + `"]}`
	gate := func(b *Block) func(t *testing.T, s *Shared) {
		return func(t *testing.T, s *Shared) {
			ctx, err := caddy.ProvisionContext(new(caddy.Config))
			if err != nil {
				t.Fatal(err)
			}
			g, err := b.Build(ctx, Now())
			if err == nil {
				err = g.Join(s)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	rule := []Rule{{Name: "x", Path: []string{"/x"}}}
	for name, c := range map[string]struct {
		app           string
		use           func(t *testing.T, s *Shared)
		open, applied bool
	}{
		"nothing": {app: redis, use: func(*testing.T, *Shared) {}},
		"limits": {app: redis, use: func(t *testing.T, s *Shared) {
			s.meter(t, zoneOf("plain", `"max_events": 1, "window": "1h"`))
		}},
		"a block of its own": {app: redis, use: gate(&Block{Rules: rule, NoShared: true})},
		"a block":            {app: redis, use: gate(new(Block)), open: true, applied: true},
		"a block that is off": {
			app: redis, use: gate(&Block{Mode: off}), open: true,
		},
		"a ban": {app: redis, use: func(t *testing.T, s *Shared) { s.meter(t, login(``)) }, open: true},
		"a check": {app: redis, use: func(t *testing.T, s *Shared) {
			if _, err := new(Check).Build(s); err != nil {
				t.Fatal(err)
			}
		}, open: true, applied: true},
		"a word about it": {app: redis + `, "block": {}`, use: func(*testing.T, *Shared) {}, open: true},
		"a change": {app: redis, use: func(t *testing.T, s *Shared) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond) // nobody runs it
			defer cancel()
			_, _, _ = s.List().Apply(ctx, blocklist.Change{By: "op", Put: []blocklist.Rule{listRule(t, "x path=/x")}}, netip.Addr{}, false)
		}, open: true},
		"a file": {app: ``, use: func(*testing.T, *Shared) {}, open: true},
	} {
		s := build(t, `{`+c.app+`}`)
		c.use(t, s)
		if s.list.isOpen() != c.open || s.Applied() != c.applied {
			t.Errorf("%s: the list is open: %v, applied: %v", name, s.list.isOpen(), s.Applied())
		}
		// Closed or not, it can be asked.
		if s.list.Mode() != blocklist.Enforce || s.list.HasBans("z") || !s.list.Check(&blocklist.Request{Path: "/y"}, Now()).None() {
			t.Errorf("%s: the list says something", name)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whoever asks for the list gets what is on it, although nothing else here needed it; and it is followed from
// then on.
func TestListIsOpenedByAsking(t *testing.T) {
	ownData(t)
	server := redistest.Start(t, redistest.Options{})
	two := nodes(t, 2, server, "")
	for _, s := range two {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Run(ctx)
		}()
		t.Cleanup(func() { cancel(); <-done })
	}
	add := func(s *Shared, name string) {
		t.Helper()
		c := blocklist.Change{By: "op", Put: []blocklist.Rule{listRule(t, name+" path=/"+name)}}
		if _, _, err := s.List().Apply(t.Context(), c, netip.Addr{}, false); err != nil {
			t.Fatal(err)
		}
	}
	add(two[0], "a")
	if two[1].list.isOpen() {
		t.Fatal("the other node's list is open, and nobody asked for it")
	}
	awaits(t, "the other node says what there is", func() bool {
		if err := two[1].list.Use(t.Context()); err != nil {
			t.Fatal(err)
		}
		return two[1].list.Content().Version == 1
	})
	add(two[0], "b")
	awaits(t, "the other node follows", func() bool { return len(two[1].list.Content().Rules) == 2 })
	if err := two[1].Close(); err != nil {
		t.Fatal(err)
	}
	gone := nodes(t, 1, server, "")[0]
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	if err := gone.list.Use(t.Context()); !errors.Is(err, limiter.ErrUnavailable) {
		t.Errorf("of a configuration that is gone: %v", err)
	}
}

// A user without the rights that the list takes counts as ever; and whoever wants the list is told what is
// missing.
func TestListWithoutRights(t *testing.T) {
	ownData(t)
	server := redistest.Start(t, redistest.Options{})
	server.Do("ACL SETUSER weir on >sesame " + countingRights)
	s := listFrom(t, `{"redis": {"addresses": ["`+server.Addr()+`"], "username": "weir", "password": "sesame", "timeout": "5s"}}`)
	m := s.meter(t, zoneOf("plain", `"max_events": 3, "window": "1h"`))
	if allowed, local := m.count(t, 1, 5); allowed != 3 || local != 0 {
		t.Errorf("%d were allowed, %d of them by this node alone", allowed, local)
	}
	if denied := server.Do("ACL LOG"); denied != "" && strings.Contains(denied, "weir") {
		t.Errorf("the server denied %s", denied)
	}
	awaits(t, "the list tells what it lacks", func() bool {
		if err := s.list.Use(t.Context()); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(s.list.State().Error, "permi")
	})
	change := blocklist.Change{By: "op", Put: []blocklist.Rule{listRule(t, "x path=/x")}}
	if _, _, err := s.list.Apply(t.Context(), change, netip.Addr{}, false); !errors.Is(err, limiter.ErrUnavailable) || !strings.Contains(err.Error(), "can't run this command") && !strings.Contains(err.Error(), "permi") {
		t.Errorf("a change: %v", err)
	}
}

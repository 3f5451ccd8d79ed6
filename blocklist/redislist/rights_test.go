package redislist

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/blocklist/keepertest"
	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
)

// A change that the user has no right to changes nothing, whichever right it is, and names it. Whoever watches
// is told at once, and follows the list all the same.
func TestDenied(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	server.Do("ACL SETUSER weir on >password ~* &* +@all")
	o := fresh(server.Addr())
	all := open(t, o)
	put(t, all, "a")
	o.Username, o.Password = "weir", "password"
	k := open(t, o)
	over := func() blocklist.Change {
		mode := blocklist.DryRun
		c := change(t, "b")
		c.Mode = &mode
		c.Ban = []blocklist.Ban{{Key: "x", Origin: "t", Until: time.Now().Add(time.Hour)}}
		return c
	}
	kept := func() string {
		var texts []string
		for _, key := range k.keys() {
			texts = append(texts, server.Do("DUMP "+key))
		}
		return strings.Join(texts, "\n")
	}
	before := kept()
	for _, right := range []string{"hset", "hdel", "zadd", "zrem", "zrange", "lpush", "ltrim", "lrange", "publish", "hlen", "hexists", "zrangebyscore"} {
		server.Do("ACL SETUSER weir -" + right)
		_, err := k.Apply(t.Context(), over())
		var denied *Denied
		if !errors.As(err, &denied) || !slices.Equal(denied.Commands, []string{strings.ToUpper(right)}) || !errors.Is(err, limiter.ErrUnavailable) {
			t.Errorf("without %s: %v", right, err)
		}
		if after := kept(); after != before {
			t.Errorf("without %s the list was changed", right)
		}
		server.Do("ACL SETUSER weir +" + right)
	}
	server.Do("ACL SETUSER weir -hset -lpush")
	k.wait = hasty
	w := keepertest.Follow(t, k)
	w.Await(t, "told of the rights", func(c blocklist.Content) bool {
		all := w.Troubles()
		return has("a")(c) && len(all) > 0 && all[len(all)-1] != nil && strings.Contains(all[len(all)-1].Error(), "does not permit this user HSET, LPUSH,")
	})
	put(t, all, "c")
	w.Await(t, "followed", has("a", "c"))
	server.Do("ACL SETUSER weir +hset +lpush")
	w.AwaitTrouble(t, false)
	server.Do("ACL SETUSER weir -eval")
	k = open(t, o)
	k.wait = hasty
	w = keepertest.Follow(t, k)
	w.Await(t, "followed without scripts", func(c blocklist.Content) bool { return has("a", "c")(c) && len(w.Troubles()) > 0 })
}

// A key that belongs to somebody else is found before anything is written.
func TestForeignKey(t *testing.T) {
	for _, what := range []string{"rules", "bans", "rule-ends", "ban-ends", "state", "trail"} {
		server := redistest.Start(t, redistest.Options{})
		k := open(t, fresh(server.Addr()))
		server.Do("SET " + k.name(what) + " x")
		_, err := k.Apply(t.Context(), change(t, "b"))
		if err == nil || errors.Is(err, blocklist.ErrRefused) {
			t.Errorf("%s: %v", what, err)
		}
		if keys := server.Do("DBSIZE"); keys != ":1" {
			t.Errorf("%s: %s keys are there", what, keys)
		}
	}
}

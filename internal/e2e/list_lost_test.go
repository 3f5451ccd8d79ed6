package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirhq/caddy-weir/internal/redistest"
)

// TestListOvertaken kills a Redis with a list of one version, and starts it empty. Before the two Caddys look, an operator
// has made a new list there that has come further: both have both.
func TestListOvertaken(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	one, two := serve(t, guarded(redis)), serve(t, guarded(redis))
	one.mustWeir(t, "import", manyRules(t, 300))
	one.mustWeir(t, "ban", "203.0.113.9", "--for", "1h")
	if !poll(func() bool { return one.refused(t, "/r299") && two.refused(t, "/r299") }) {
		t.Fatal("the rules do not bite")
	}
	for _, node := range []*site{one, two} {
		if err := node.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = node.cmd.Process.Signal(syscall.SIGCONT) }()
	}
	redis.Restart()
	for i := range 3 {
		one.mustWeir(t, "add", fmt.Sprint("new", i), fmt.Sprint("path=/new", i), "--redis", redis.Addr())
	}
	for _, node := range []*site{one, two} {
		if err := node.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range []*site{one, two} {
		if !poll(func() bool { return node.refused(t, "/new2") }) {
			t.Error("what was made meanwhile does not bite")
		}
		if !node.refused(t, "/r0") || !node.refused(t, "/r299") {
			t.Error("rules are lost")
		}
	}
	if !poll(func() bool { return has(redis, 303, 1) }) {
		t.Errorf("Redis has %s rules and %s bans", redis.Do("HLEN weir:{block}:rules"), redis.Do("HLEN weir:{block}:bans"))
	}
}

// TestListOutlivesBoth ends Caddy and Redis, and starts Caddy first: what its disk has is in force, and given back once Redis is
// there. The disk keeps it meanwhile.
func TestListOutlivesBoth(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	one := serve(t, guarded(redis))
	one.mustWeir(t, "import", manyRules(t, 5))
	one.mustWeir(t, "ban", "203.0.113.9", "--for", "1h")
	if err := one.stop(); err != nil {
		t.Fatal(err)
	}
	redis.Kill()
	again, err := startNode(one.dir, one.name, one.file, one.env)
	if err != nil {
		t.Fatal(err)
	}
	one.node = again
	if !one.refused(t, "/r4") {
		t.Error("without Redis the copy is not in force")
	}
	redis.Restart()
	if err := one.waitLog("Redis had lost the shared block list, and was given back the last one known here"); err != nil {
		t.Fatal(err)
	}
	two := serve(t, guarded(redis))
	if !poll(func() bool { return two.refused(t, "/r4") }) || !one.refused(t, "/r4") {
		t.Error("the rules are lost")
	}
	if !has(redis, 5, 1) {
		t.Error("the ban is lost")
	}
}

// TestRedisStopsWhileGivenBack has Redis stand still after a part of a long list was given back to it, until that is given
// up: the rest follows.
func TestRedisStopsWhileGivenBack(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	one := serve(t, guarded(redis))
	const rules = 60_000
	for from := 0; from < rules; from += 10_000 {
		one.mustWeir(t, "import", manyRules(t, 10_000, from), "--timeout", "60s")
	}
	one.mustWeir(t, "ban", "203.0.113.9", "--for", "1h")
	if !poll(func() bool { return one.refused(t, fmt.Sprint("/r", rules-1)) }) {
		t.Fatal("the rules do not bite")
	}
	redis.Do("FLUSHALL")
	redis.Do("PUBLISH weir:{block}:news version")
	if !poll(func() bool { return redis.Do("HGET weir:{block}:state version") != "" }) {
		t.Fatal("nothing is given back")
	}
	redis.Pause()
	err := one.waitLog("the shared block list cannot be followed")
	redis.Resume()
	if err != nil {
		t.Fatal(err)
	}
	if !poll(func() bool { return has(redis, rules, 1) }) {
		t.Errorf("Redis has %s rules and %s bans", redis.Do("HLEN weir:{block}:rules"), redis.Do("HLEN weir:{block}:bans"))
	}
	if err := one.waitLog("was given back the last one known here"); err != nil {
		t.Error(err)
	}
}

// has reports whether the list on a Redis has so many rules and bans.
func has(redis *redistest.Server, rules, bans int) bool {
	return redis.Do("HLEN weir:{block}:rules") == fmt.Sprint(":", rules) && redis.Do("HLEN weir:{block}:bans") == fmt.Sprint(":", bans)
}

// manyRules writes a list of n rules, from r0 or another number on, to a file.
func manyRules(t *testing.T, n int, from ...int) string {
	t.Helper()
	first := 0
	if len(from) > 0 {
		first = from[0]
	}
	var b strings.Builder
	for i := first; i < first+n; i++ {
		fmt.Fprintf(&b, "rule r%d path=/r%d\n", i, i)
	}
	path := filepath.Join(t.TempDir(), "list.txt")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/internal/redistest"
)

// guarded is a Caddyfile with the shared list in Redis, and clients that are told apart by
// X-Forwarded-For.
func guarded(redis *redistest.Server) string {
	return `{
	servers {
		trusted_proxies static private_ranges
	}
	weir {
		redis ` + redis.Addr() + `
	}
}
:{$PORT} {
	block
	respond "through"
}
`
}

// weir runs a verb of `caddy weir block` and returns what it said.
func (s *site) weir(args ...string) (string, error) {
	cmd := s.command(append([]string{"weir", "block"}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// mustWeir is weir for what has to succeed.
func (s *site) mustWeir(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.weir(args...)
	if err != nil {
		t.Fatalf("caddy weir block %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// refused reports whether a stranger's request for a path is refused.
func (s *site) refused(t *testing.T, path string) bool {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Forwarded-For", "198.51.100.7")
	client := newClient(1)
	defer client.CloseIdleConnections()
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusForbidden
}

// TestRuleBitesOnAllNodes makes rules on one node: the other enforces each soon, and forgets it
// as soon. Of how long it took the longest is told.
func TestRuleBitesOnAllNodes(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	one, two := serve(t, guarded(redis)), serve(t, guarded(redis))
	var longest time.Duration
	for i := range 5 {
		path := fmt.Sprintf("/%d", i)
		if two.refused(t, path) {
			t.Fatalf("%s is refused before there is a rule", path)
		}
		one.mustWeir(t, "add", "rule"+path, "path="+path)
		begin := time.Now()
		if !poll(func() bool { return two.refused(t, path) }) {
			t.Fatalf("the rule for %s never reached the other node", path)
		}
		longest = max(longest, time.Since(begin))
		if !one.refused(t, path) {
			t.Errorf("%s is not refused on the node that was told", path)
		}
	}
	two.mustWeir(t, "mode", "off")
	if !poll(func() bool { return !one.refused(t, "/0") }) {
		t.Error("switched off on one node, the other still refuses")
	}
	t.Logf("the longest way from one node to the other took %s", longest)
}

// TestChangesReachAllNodes makes a hundred rules at the admin endpoint of one node, and asks the other until it
// refuses: over real connections, from the request for the change to the first answer that is refused. The aim is a second for the
// slowest in a hundred; a busy machine gets ten.
func TestChangesReachAllNodes(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	one, two := serve(t, guarded(redis)), serve(t, guarded(redis))
	client := newClient(1)
	defer client.CloseIdleConnections()
	ask := func(method, url, body string) int {
		t.Helper()
		r, err := http.NewRequest(method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Forwarded-For", "198.51.100.7")
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	const changes = 100
	took := make([]time.Duration, changes)
	for i := range took {
		path := fmt.Sprintf("/%d", i)
		if status := ask(http.MethodGet, two.url+path, ""); status != http.StatusOK {
			t.Fatalf("%s answers %d before there is a rule", path, status)
		}
		begin := time.Now()
		if status := ask(http.MethodPost, "http://"+one.admin()+"/weir/block/add", `{"lines": ["r`+path[1:]+` path=`+path+`"]}`); status != http.StatusOK {
			t.Fatalf("the change answers %d", status)
		}
		if !poll(func() bool { return ask(http.MethodGet, two.url+path, "") == http.StatusForbidden }) {
			t.Fatalf("the rule for %s never reached the other node", path)
		}
		took[i] = time.Since(begin)
	}
	slices.Sort(took)
	t.Logf("from a change on one node to the first refusal on the other: p50 %s, p99 %s, worst %s", took[changes/2], took[changes*99/100-1], took[changes-1])
	if p99 := took[changes*99/100-1]; p99 > 10*time.Second {
		t.Errorf("the slowest of 99 took %s", p99)
	}
}

// TestRedisWhileCaddyIsPaused stops Caddy in the middle of whatever it does. The rule is made in
// Redis, past it, and bites as soon as it runs on.
func TestRedisWhileCaddyIsPaused(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	node := serve(t, guarded(redis))
	if node.refused(t, "/search") {
		t.Fatal("refused before there is a rule")
	}
	if err := node.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resume := sync.OnceFunc(func() { _ = node.cmd.Process.Signal(syscall.SIGCONT) })
	defer resume()

	out, err := node.weir("add", "stop", "path=/search", "--timeout", "300ms")
	if code := exitCode(err); code != 2 || !strings.Contains(out, "does not answer in time") || !strings.Contains(out, "--direct") {
		t.Errorf("asked of a paused Caddy: exit code %d and\n%s", code, out)
	}
	if out := node.mustWeir(t, "add", "stop", "path=/search", "--redis", redis.Addr(), "--by", "ann"); !strings.Contains(out, `added "stop"`) {
		t.Errorf("straight to Redis: %s", out)
	}
	if out := node.mustWeir(t, "list", "--direct", "--config", node.file, "--adapter", "caddyfile"); !strings.Contains(out, "stop") || !strings.Contains(out, "ann") {
		t.Errorf("as the configuration says: %s", out)
	}
	resume()
	begin := time.Now()
	if !poll(func() bool { return node.refused(t, "/search") }) {
		t.Fatal("the rule does not bite after the pause")
	}
	t.Logf("the rule bit %s after the pause", time.Since(begin))
	if out := node.mustWeir(t, "trail"); !strings.Contains(out, "rule stop") {
		t.Errorf("the trail does not know who did it: %s", out)
	}
}

// TestManyWriters has several people change the list at once, by all doors: nothing is lost, each
// change has a version of its own, and all nodes agree in the end.
func TestManyWriters(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	one, two := serve(t, guarded(redis)), serve(t, guarded(redis))
	const writers, each = 3, 3
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprintf("w%d-%d", w, i)
				args := []string{"add", name, "path=/" + name}
				door := one
				switch w {
				case 1:
					door = two
				case 2:
					args = append(args, "--redis", redis.Addr())
				}
				if out, err := door.weir(args...); err != nil {
					t.Errorf("%s: %v\n%s", name, err, out)
				}
			}
		})
	}
	wg.Wait()
	want := fmt.Sprintf("version %d,", writers*each)
	for _, node := range []*site{one, two} {
		out := ""
		if !poll(func() bool { out = node.mustWeir(t, "list"); return strings.Contains(out, want) }) {
			t.Fatalf("no %s in\n%s", want, out)
		}
		for w := range writers {
			for i := range each {
				if name := fmt.Sprintf("w%d-%d ", w, i); !strings.Contains(out, name) {
					t.Errorf("no rule %sin\n%s", name, out)
				}
			}
		}
	}
}

// TestExampleWorker runs the worker of the example against the site of the example.
func TestExampleWorker(t *testing.T) {
	t.Parallel()
	folder := filepath.Join("..", "..", "examples", "worker")
	binary := filepath.Join(t.TempDir(), "worker")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", binary, "./"+filepath.ToSlash(filepath.Join(folder, "worker"))).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	caddyfile, err := os.ReadFile(filepath.Join(folder, "Caddyfile"))
	if err != nil {
		t.Fatal(err)
	}
	node := serve(t, strings.Replace(string(caddyfile), "http://localhost:8080", "http://:{$PORT}", 1))
	queue := filepath.Join(t.TempDir(), "queue")
	fill := func() {
		t.Helper()
		if err := os.WriteFile(queue, []byte("mail.send ann list=all\nreport.build bob year=2025\nmail.send bob\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	work := func(url string) string {
		t.Helper()
		out, err := exec.Command(binary, "-check", url+"/weir/check", queue).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	left := func(path string) string {
		text, _ := os.ReadFile(path)
		return string(text)
	}
	fill()
	if out := work(node.url); strings.Count(out, "run ") != 3 || left(queue) != "" {
		t.Errorf("without a rule: %s", out)
	}
	node.mustWeir(t, "add", "reports", "--handler", "report.*", "--dropped", "retry:10m")
	node.mustWeir(t, "add", "lists", "--handler", "mail.send", "--args", "list=*", "--dropped", "dead_letter")
	fill()
	if out := work(node.url); strings.Count(out, "run ") != 1 || left(queue) != "report.build bob year=2025\n" || left(queue+".dead") != "mail.send ann list=all\n" {
		t.Errorf("with rules: %s\nleft %q, aside %q", out, left(queue), left(queue+".dead"))
	}
	// A check that is away stops no work.
	if out := work("http://127.0.0.1:1"); strings.Count(out, "run ") != 1 || left(queue) != "" {
		t.Errorf("without a check: %s", out)
	}
}

// exitCode returns the exit code of a command that failed; 0 if it did not.
func exitCode(err error) int {
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.ExitCode()
	}
	return 0
}

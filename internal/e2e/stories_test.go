package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/internal/redistest"
)

// A site is a node of a Go story, with the address that it serves.
type site struct {
	*node
	url  string
	file string // its Caddyfile
}

// serve runs a Caddy until the test ends. PORT in config stands for a free port.
func serve(t *testing.T, config string, env ...string) *site {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := &site{url: "http://127.0.0.1:" + port, file: filepath.Join(dir, "Caddyfile")}
	env = append(env, "PATH="+os.Getenv("PATH"), "CADDY_ADMIN=127.0.0.1:"+admin, "PORT="+port)
	s.write(t, config)
	s.node, err = startNode(dir, "caddy", s.file, env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// admin returns the address of the node's admin endpoint.
func (s *site) admin() string {
	for _, v := range s.env {
		if address, ok := strings.CutPrefix(v, "CADDY_ADMIN="); ok {
			return address
		}
	}
	return ""
}

func (s *site) write(t *testing.T, config string) {
	t.Helper()
	if err := os.WriteFile(s.file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
}

// change reloads the node with another configuration.
func (s *site) change(t *testing.T, config string) {
	t.Helper()
	s.write(t, config)
	if err := s.reload(s.file); err != nil {
		t.Fatal(err)
	}
}

// limited is a Caddyfile with one zone on Redis.
func limited(redis *redistest.Server, zone string) string {
	return `{
	weir {
		redis ` + redis.Addr() + ` {
			timeout 2s
		}
	}
}
:{$PORT} {
	rate_limit {
		zone all {
			key {client_ip}
			` + zone + `
		}
	}
	respond "through"
}
`
}

// TestOutageUnderLoad puts Redis through everything while clients ask without a pause:
// every request is answered, soon, and by Redis again whenever it is there (L91, L92,
// L103).
func TestOutageUnderLoad(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	node := serve(t, strings.Replace(limited(redis, "limit 1000000/1h"), "2s", "50ms", 1))

	var sent atomic.Int64
	stop := make(chan struct{})
	done := make(chan []shot, 1)
	go func() {
		shots, _ := load{ // only a story's own hooks make errors, and this has none
			urls: []string{node.url}, clients: 8, stop: stop,
			request: func(*http.Request) { sent.Add(1) },
		}.run()
		done <- shots
	}()
	more := func(n int64) {
		t.Helper()
		goal := sent.Load() + n
		if !poll(func() bool { return sent.Load() >= goal }) {
			t.Errorf("no %d requests in %s: the server is stuck", n, patience)
		}
	}
	counted := func() {
		t.Helper()
		if !poll(func() bool { return redis.Do("DBSIZE") != ":0" }) {
			t.Error("Redis was not used again")
		}
	}
	more(100)
	counted()
	redis.Kill()
	more(200)
	redis.Restart()
	counted()
	redis.Pause()
	more(200)
	redis.Resume()
	redis.Do("FLUSHALL")
	counted()
	redis.Do("SCRIPT FLUSH")
	more(100)
	redis.Stop()
	more(100)
	redis.Restart()
	counted()
	close(stop)

	shots := <-done
	if got := tally(shots); !strings.HasPrefix(got, "200=") || strings.Contains(got, " ") {
		t.Errorf("answers %s, want 200 for all", got)
	}
	// The timeout is 50 ms; the rest is what a busy machine and the race detector add.
	if most := slowest(shots); most > 2*time.Second {
		t.Errorf("the slowest answer took %s", most)
	}
}

// TestNoWindowOnRedisIsOverrun floods a limit over several of its windows and looks at
// every window there was, wherever it began (S1.1, L43).
func TestNoWindowOnRedisIsOverrun(t *testing.T) {
	t.Parallel()
	const limit, window = 20, time.Second
	redis := redistest.Start(t, redistest.Options{})
	one := serve(t, limited(redis, "limit 20/1s"))
	two := serve(t, limited(redis, "limit 20/1s"))

	stop := make(chan struct{})
	time.AfterFunc(4*window, func() { close(stop) })
	shots, err := load{urls: []string{one.url, two.url}, clients: 4, stop: stop}.run()
	if err != nil {
		t.Fatal(err)
	}
	passed := slices.DeleteFunc(shots, func(s shot) bool { return s.status != http.StatusOK })
	if len(passed) < 3*limit {
		t.Errorf("only %d requests passed in four windows: %s", len(passed), tally(shots))
	}
	for _, first := range passed {
		// These were counted within one window for certain: sent after its start
		// and answered before its end.
		inside := 0
		for _, s := range passed {
			if !s.sent.Before(first.sent) && s.done.Before(first.sent.Add(window)) {
				inside++
			}
		}
		if inside > limit {
			t.Fatalf("%d requests passed within %s, the limit is %d", inside, window, limit)
		}
	}
}

// TestNodesShareFairly lets two nodes, one with its clock five seconds ahead, compete for
// one token bucket: together they get what the bucket gives, and each a fair part (L1,
// L4).
func TestNodesShareFairly(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	zone := "limit 10/1s token_bucket"
	sites := []*site{
		serve(t, limited(redis, zone)),
		serve(t, limited(redis, zone), clockSkew+"=5s"),
	}
	// Each node's clients send as they can; what a client does is the same on both.
	stop := make(chan struct{})
	results := make(chan int, len(sites))
	start := time.Now()
	time.AfterFunc(3*time.Second, func() { close(stop) })
	for _, s := range sites {
		go func() {
			shots, _ := load{urls: []string{s.url}, clients: 2, stop: stop}.run()
			passed := 0
			for _, s := range shots {
				if s.status == http.StatusOK {
					passed++
				}
			}
			results <- passed
		}()
	}
	a, b := <-results, <-results
	elapsed := time.Since(start)

	most := 10 + int(10*elapsed.Seconds()) + 1
	if total := a + b; total > most || total < 30 {
		t.Errorf("%d requests passed in %s, want 30 to %d", total, elapsed, most)
	}
	if min(a, b)*5 < a+b {
		t.Errorf("one node passed %d, the other %d", a, b)
	}
}

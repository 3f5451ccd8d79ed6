package e2e

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/internal/redistest"
)

// shared is a Caddyfile with a zone for each user and one for all, on that Redis.
func shared(redis string) string {
	return `{
	weir {
		redis ` + redis + ` {
			timeout 50ms
		}
	}
}
:{$PORT} {
	rate_limit {
		zone each {
			key {header.X-User}
			limit 1000/1h
		}
		zone all {
			key all
			limit 1000000/1h
		}
	}
	respond "through"
}
`
}

// underLoad sends requests of many users without a pause while change happens, and wants each
// of them answered as if nothing had, within the timeout and 20 ms, beyond what the machine
// itself was late.
func underLoad(t *testing.T, node *site, change func(more func(n int64))) {
	t.Helper()
	var sent atomic.Int64
	stop := make(chan struct{})
	done := make(chan []shot, 1)
	late := make(chan time.Duration, 1)
	go func() {
		shots, _ := load{ // only a story's own hooks make errors, and this has none
			urls: []string{node.url}, clients: 8, stop: stop,
			request: func(r *http.Request) { r.Header.Set("X-User", strconv.FormatInt(sent.Add(1)%500, 10)) },
		}.run()
		done <- shots
	}()
	go func() { late <- lateness(stop) }()
	change(func(n int64) {
		t.Helper()
		goal := sent.Load() + n
		if !poll(func() bool { return sent.Load() >= goal }) {
			t.Errorf("no %d requests in %s: the server is stuck", n, patience)
		}
	})
	close(stop)

	shots := <-done
	if got := tally(shots); !strings.HasPrefix(got, "200=") || strings.Contains(got, " ") {
		t.Errorf("answers %s, want 200 for all", got)
	}
	// The load and the server share the machine: each may be late, when it sends and when
	// it reads or gives up.
	most, wait := 70*time.Millisecond+4*<-late, slowest(shots)
	t.Logf("%d requests, the slowest took %s", len(shots), wait)
	if wait > most {
		t.Errorf("the slowest answer took %s, want at most %s", wait, most)
	}
}

// lateness returns by how much the machine woke somebody up too late, until stop.
func lateness(stop <-chan struct{}) time.Duration {
	var most time.Duration
	for {
		start := time.Now()
		select {
		case <-stop:
			return most
		case <-time.After(time.Millisecond):
		}
		most = max(most, time.Since(start)-time.Millisecond)
	}
}

// TestFailoverUnderLoad: the master dies, and sentinels put a replica in its place.
func TestFailoverUnderLoad(t *testing.T) {
	t.Parallel()
	set := redistest.StartSentinels(t, redistest.Options{})
	node := serve(t, strings.Replace(shared(strings.Join(set.Addrs(), " ")),
		"timeout", "sentinel "+redistest.MasterName+"\n\t\t\ttimeout", 1))
	underLoad(t, node, func(more func(n int64)) {
		more(500)
		master := set.Servers[0]
		master.Kill()
		next := set.AwaitMaster(master)
		before := next.Do("DBSIZE")
		next.Do("FLUSHALL")
		more(500)
		if !poll(func() bool { return next.Do("DBSIZE") != ":0" }) {
			t.Errorf("the new master, which had %s, is not used", before)
		}
	})
	if err := node.waitLog("store unavailable"); err != nil {
		t.Error(err)
	}
}

// TestLostNodeUnderLoad: a cluster loses a master, and a replica takes its place.
func TestLostNodeUnderLoad(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.Options{})
	node := serve(t, shared(strings.Join(c.Addrs(), " ")))
	underLoad(t, node, func(more func(n int64)) {
		more(500)
		c.Masters[1].Kill()
		c.AwaitMaster(c.Replicas[1])
		c.Replicas[1].Do("FLUSHALL")
		more(500)
		if !poll(func() bool { return c.Replicas[1].Do("DBSIZE") != ":0" }) {
			t.Error("the new master is not used")
		}
	})
}

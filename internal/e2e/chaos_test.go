package e2e

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirhq/caddy-weir/internal/redistest"
)

// goroutines matches the first line of Go's profile of goroutines.
var goroutines = regexp.MustCompile(`^goroutine profile: total (\d+)`)

// goroutines returns how many goroutines the node has, and what each does.
func (s *site) goroutines(t *testing.T) (n int, profile string) {
	t.Helper()
	// Without keeping the connection, so that the question is the same each time.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Get("http://" + s.admin() + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	m := goroutines.FindSubmatch(text)
	if m == nil {
		t.Fatalf("no number of goroutines in %.100q", text)
	}
	if n, err = strconv.Atoi(string(m[1])); err != nil {
		t.Fatal(err)
	}
	return n, string(text)
}

// TestLoadReloadsAndOutages does all at once, under the race detector: clients under many
// keys, reloads that change the limit, and a Redis that is killed, paused and flushed.
// Nobody gets anything but an answer of the site or a refusal; and when it is over, goroutines
// and connections are back at their number.
func TestLoadReloadsAndOutages(t *testing.T) {
	t.Parallel()
	const pool = 4
	redis := redistest.Start(t, redistest.Options{})
	config := func(limit int) string {
		text := strings.Replace(limited(redis, fmt.Sprintf("limit %d/1h", limit)), "timeout 2s",
			fmt.Sprintf("timeout 50ms\n\t\t\tpool_size %d", pool), 1)
		return strings.Replace(text, "key {client_ip}", "key {header.X-Key}", 1)
	}
	node := serve(t, config(3))

	var asked atomic.Int64
	storm := func() {
		stop := make(chan struct{})
		done := make(chan []shot, 1)
		go func() {
			shots, _ := load{ // only a story's own hooks make errors, and this has none
				urls: []string{node.url}, clients: 8, stop: stop, reloads: true,
				request: func(r *http.Request) {
					// Each key comes a few times, now and later.
					n := asked.Add(1)
					r.Header.Set("X-Key", strconv.FormatInt(n/16*8+n%8, 10))
				},
			}.run()
			done <- shots
		}()
		more := func() {
			goal := asked.Load() + 100
			if !poll(func() bool { return asked.Load() >= goal }) {
				t.Error("the server is stuck")
			}
		}
		more()
		redis.Kill()
		node.change(t, config(4))
		more()
		redis.Restart()
		node.change(t, config(3))
		redis.Pause()
		more()
		node.change(t, config(4))
		redis.Resume()
		more()
		redis.Do("SCRIPT FLUSH")
		redis.Do("FLUSHALL")
		node.change(t, config(3))
		if !poll(func() bool { return redis.Do("DBSIZE") != ":0" }) {
			t.Error("Redis was not used again")
		}
		close(stop)
		statuses := map[int]int{}
		for _, s := range <-done {
			statuses[s.status]++
		}
		if statuses[http.StatusOK] == 0 || len(statuses) > 2 || len(statuses) == 2 && statuses[http.StatusTooManyRequests] == 0 {
			t.Errorf("answers %v, want only 200 and 429", statuses)
		}
	}

	// What is made only once is made by the first.
	storm()
	calm := 0
	settled := func() bool {
		now, _ := node.goroutines(t)
		same := now == calm
		calm = now
		return same
	}
	if !poll(settled) {
		t.Fatal("the number of goroutines does not come to rest")
	}
	before := calm
	storm()
	profile := ""
	if !poll(func() bool { calm, profile = node.goroutines(t); return calm <= before }) {
		t.Errorf("%d goroutines, %d before:\n%s", calm, before, profile)
	}
	held := func() int {
		all := redis.Do("CLIENT LIST")
		return strings.Count(all, "id=") - strings.Count(all, "cmd=client|list")
	}
	// The store's, and three more: two that listen, for resets and for the block list, and
	// one by which that is looked at.
	const most = pool + 3
	if !poll(func() bool { n := held(); return n > 0 && n <= most }) {
		t.Errorf("%d connections to Redis, want some, and at most %d", held(), most)
	}
}

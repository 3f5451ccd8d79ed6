package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/internal/redistest"
)

// shortTTL is after what time the leases of a dead node end in these stories.
const shortTTL = 3 * time.Second

// A house is an app that says how many visitors it has.
type house struct {
	inside, most atomic.Int64
	gate         chan struct{} // visitors of / leave when it is open
}

// newHouse runs one and returns it with its address.
func newHouse(t *testing.T) (*house, string) {
	h := &house{gate: make(chan struct{})}
	return h, upstreamOf(t, h.serve)
}

func (h *house) serve(w http.ResponseWriter, r *http.Request) {
	n := h.inside.Add(1)
	defer h.inside.Add(-1)
	for most := h.most.Load(); n > most && !h.most.CompareAndSwap(most, n); most = h.most.Load() {
	}
	switch r.URL.Path {
	case "/quick":
	case "/no": // never becomes a WebSocket
		w.WriteHeader(http.StatusUpgradeRequired)
	case "/broken":
		panic(http.ErrAbortHandler)
	case "/socket":
		h.socket(w, r.Header.Get("Upgrade"))
	default:
		select {
		case <-h.gate:
		case <-r.Context().Done():
		}
	}
}

// socket switches to another protocol, in which what comes is sent back.
func (h *house) socket(w http.ResponseWriter, protocol string) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", protocol)
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, buffer, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.Copy(conn, buffer)
}

// housed is the Caddyfile of a node before a house that lets n in at a time.
func housed(redis *redistest.Server, timeout, house string, n int) string {
	store := ""
	if redis != nil {
		store = "weir {\n redis " + redis.Addr() + " {\n timeout " + timeout + "\n }\n }\n"
	}
	return "{\n grace_period 100ms\n" + store + `}
:{$PORT} {
	rate_limit {
		zone house {
			key {client_ip}
			in_flight ` + fmt.Sprint(n) + `
		}
	}
	reverse_proxy ` + house + ` {
		stream_close_delay 1h
	}
}
`
}

// visits sends so many requests at once, to the addresses in turn, and returns the statuses
// as they come.
func visits(n int, urls ...string) <-chan int {
	statuses := make(chan int, n)
	client := newClient(n)
	for i := range n {
		go func() {
			resp, err := client.Get(urls[i%len(urls)])
			if err != nil {
				statuses <- 0
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			statuses <- resp.StatusCode
		}()
	}
	return statuses
}

// expect receives so many statuses, all of which have to be that one.
func expect(t *testing.T, statuses <-chan int, n, want int) {
	t.Helper()
	for range n {
		select {
		case status := <-statuses:
			if status != want {
				t.Fatalf("status %d, want %d", status, want)
			}
		case <-time.After(patience):
			t.Fatalf("no answer, want status %d", want)
		}
	}
}

// empty waits until Redis holds no lease: only the secret is left.
func empty(t *testing.T, redis *redistest.Server) {
	t.Helper()
	if !poll(func() bool { return redis.Do("DBSIZE") == ":1" }) {
		t.Fatalf("places are still taken: %s", redis.Do("KEYS *"))
	}
}

// TestInFlightOverTwoNodes lets 200 in at once through two nodes, of which 20 may be inside
// at any time, and all of whom are answered. When the 20 have left, 20 places are free; and
// so they are after a node was killed with 20 visitors (L52).
func TestInFlightOverTwoNodes(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	h, addr := newHouse(t)
	ttl := leaseTTL + "=" + shortTTL.String()
	one, two := serve(t, housed(redis, "5s", addr, 20), ttl), serve(t, housed(redis, "5s", addr, 20), ttl)

	for range 2 {
		statuses := visits(200, one.url, two.url)
		expect(t, statuses, 180, http.StatusTooManyRequests)
		// The last of the 20 may still be on its way to the house.
		if !poll(func() bool { return h.inside.Load() == 20 }) {
			t.Fatalf("%d are inside, want 20", h.inside.Load())
		}
		close(h.gate)
		expect(t, statuses, 20, http.StatusOK)
		h.gate = make(chan struct{})
		empty(t, redis)
	}
	if n := h.most.Load(); n != 20 {
		t.Errorf("%d were inside at a time, want 20", n)
	}

	lost := visits(20, one.url)
	if !poll(func() bool { return h.inside.Load() == 20 }) {
		t.Fatalf("%d are inside, want 20", h.inside.Load())
	}
	expect(t, visits(1, two.url), 1, http.StatusTooManyRequests)
	one.kill()
	expect(t, lost, 20, 0)
	empty(t, redis)
	statuses := visits(30, two.url)
	expect(t, statuses, 10, http.StatusTooManyRequests)
	close(h.gate)
	expect(t, statuses, 20, http.StatusOK)
	// A node that ends in peace leaves nothing behind, whoever is still inside.
	h.gate = make(chan struct{})
	lost = visits(5, two.url)
	if !poll(func() bool { return h.inside.Load() == 5 }) {
		t.Fatalf("%d are inside, want 5", h.inside.Load())
	}
	if err := two.stop(); err != nil {
		t.Error(err)
	}
	two.ended = true
	if got := redis.Do("DBSIZE"); got != ":1" {
		t.Errorf("places are still taken: %s", redis.Do("KEYS *"))
	}
	expect(t, lost, 5, 0)
}

// switched asks for another protocol and returns the open connection.
func switched(t *testing.T, s *site) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, "GET /socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("no switch: %+v, %v", resp, err)
	}
	return conn
}

// alive reports whether a connection still echoes.
func alive(conn net.Conn) bool {
	if _, err := io.WriteString(conn, "x"); err != nil {
		return false
	}
	var b [1]byte
	_, err := io.ReadFull(conn, b[:])
	return err == nil
}

// TestInFlightLastsAndEnds takes all places by connections that switched to another
// protocol: they keep them for as long as they are open, over many times the leases' TTL and
// over reloads, and free them when they are closed; as does every other end that a request
// can come to (L53, L58).
func TestInFlightLastsAndEnds(t *testing.T) {
	for _, store := range []string{"memory", "redis"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			var redis *redistest.Server
			if store == "redis" {
				redis = redistest.Start(t, redistest.Options{})
			}
			h, addr := newHouse(t)
			node := serve(t, housed(redis, "5s", addr, 2), leaseTTL+"="+shortTTL.String())
			full := func(when string) {
				t.Helper()
				if status := get(t, node.url+"/quick"); status != http.StatusTooManyRequests {
					t.Fatalf("%s: status %d, want all places taken", when, status)
				}
			}
			room := func(when string) {
				t.Helper()
				status := 0
				if !poll(func() bool { status = get(t, node.url+"/quick"); return status == http.StatusOK }) {
					t.Fatalf("%s: status %d, want a free place", when, status)
				}
			}
			visitors := func(n int64) {
				t.Helper()
				if !poll(func() bool { return h.inside.Load() == n }) {
					t.Fatalf("%d are inside, want %d", h.inside.Load(), n)
				}
			}
			first, second := switched(t, node), switched(t, node)
			full("two connections")
			// Another connection to Redis, or the same store in memory.
			node.change(t, housed(redis, "4s", addr, 2))
			full("after a reload")
			for end := time.Now().Add(2 * shortTTL); time.Now().Before(end); {
				full("as time passes")
				if !alive(first) || !alive(second) {
					t.Fatal("a connection was closed")
				}
			}
			first.Close()
			room("one was closed")
			third := switched(t, node)
			full("a third connection")
			second.Close()
			third.Close()

			for _, path := range []string{"/no", "/broken", "/socket"} {
				for range 5 {
					room("before " + path)
					raw(t, node.addr(), path, "Upgrade: echo", "Connection: Upgrade")
				}
			}
			for range 5 { // who goes away before the answer comes
				room("before a client that goes away")
				visitors(0)
				conn, err := net.Dial("tcp", node.addr())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(conn, "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				visitors(1)
				conn.Close()
			}
			room("at the end")
			statuses := visits(3, node.url)
			expect(t, statuses, 1, http.StatusTooManyRequests)
			close(h.gate)
			expect(t, statuses, 2, http.StatusOK)
		})
	}
}

// TestInFlightOneAfterTheOther sends requests in sequence where one place is all there is:
// they do not meet the one before, unless the machine holds it up for longer than the next
// one waits.
func TestInFlightOneAfterTheOther(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	_, addr := newHouse(t)
	for name, config := range map[string]string{
		"memory": housed(nil, "", addr, 1), "redis": housed(redis, "5s", addr, 1),
	} {
		node := serve(t, config)
		shots, err := load{urls: []string{node.url + "/quick"}, clients: 1, count: 500}.run()
		if err != nil {
			t.Fatal(err)
		}
		late := 0
		for _, s := range shots {
			switch s.status {
			case http.StatusOK:
			case http.StatusTooManyRequests:
				late++
			default:
				t.Errorf("%s: status %d", name, s.status)
			}
		}
		if most := map[string]int{"memory": 0, "redis": 5}[name]; late > most {
			t.Errorf("%s: %d of %d requests met the one before", name, late, len(shots))
		}
	}
}

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// An event is one request of the load, its times counted from the load's begin.
type event struct {
	key    int
	since  time.Duration // when the client began to wait: see client
	sent   time.Duration
	done   time.Duration
	status int // 0 if there was no answer
}

// failed reports whether the client met neither a page nor a refusal.
func (e event) failed() bool {
	return e.status != http.StatusOK && e.status != http.StatusTooManyRequests
}

// delay is what the client waited.
func (e event) delay() time.Duration { return e.done - e.since }

// A crowd is clients that ask at their times (an open loop).
type crowd struct {
	addrs []string // of the nodes; each client asks one
	rate  int      // requests a second of each client
	begin time.Time

	mu     sync.Mutex
	events []event
}

// run asks until ctx is done, and returns all events in the order in which they were sent.
func (c *crowd) run(ctx context.Context) []event {
	var wg sync.WaitGroup
	for i := range outageClients {
		wg.Go(func() {
			events := c.client(ctx, i)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.events = append(c.events, events...)
		})
	}
	wg.Wait()
	slices.SortFunc(c.events, func(a, b event) int { return int(a.sent - b.sent) })
	return c.events
}

// client is one client. Its key is shared with clients of all nodes. A request that was due
// while the one before it had no answer yet has waited since then; that a timer is late, on the
// other hand, is not the server's delay.
func (c *crowd) client(ctx context.Context, i int) []event {
	v := &visitor{addr: c.addrs[i%len(c.addrs)], key: i / len(c.addrs) % outageKeys}
	defer v.hangUp()
	every := time.Second / time.Duration(c.rate)
	due := every * time.Duration(i) / outageClients
	var all []event
	busy := false
	for {
		if until(ctx, c.begin.Add(due)) != nil {
			return all
		}
		e := event{key: v.key, sent: time.Since(c.begin)}
		if e.since = e.sent; busy {
			e.since = due
		}
		e.status = v.ask()
		e.done = time.Since(c.begin)
		all = append(all, e)
		due += every
		busy = e.done > due
	}
}

// A visitor keeps one connection to a node.
type visitor struct {
	addr string
	key  int
	conn net.Conn
	r    *bufio.Reader
}

// request is what a visitor is when it asks, for the answer's reader.
var get = &http.Request{Method: http.MethodGet}

// ask sends a request and returns the status of the answer, 0 if there is none.
func (v *visitor) ask() int {
	status, keep, err := v.exchange()
	if err != nil {
		v.hangUp()
		return 0
	}
	if !keep {
		v.hangUp()
	}
	return status
}

func (v *visitor) exchange() (status int, keep bool, err error) {
	if v.conn == nil {
		if v.conn, err = net.DialTimeout("tcp", v.addr, patience); err != nil {
			return 0, false, err
		}
		v.r = bufio.NewReader(v.conn)
	}
	if err := v.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return 0, false, err
	}
	if _, err := fmt.Fprintf(v.conn, "GET / HTTP/1.1\r\nHost: %s\r\nX-Forwarded-For: 10.0.0.%d\r\n\r\n", v.addr, v.key+1); err != nil {
		return 0, false, err
	}
	resp, err := http.ReadResponse(v.r, get)
	if err != nil {
		return 0, false, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp.StatusCode, !resp.Close, err
}

func (v *visitor) hangUp() {
	if v.conn != nil {
		v.conn.Close()
		v.conn = nil
	}
}

// hostOf returns the host and port in a server's URL.
func hostOf(url string) string { return strings.TrimPrefix(url, "http://") }

package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A shot is one request of a load and what came of it. A request that got no answer has
// status 0.
type shot struct {
	status     int
	sent, done time.Time
}

// A load is many requests, sent by several clients at once.
type load struct {
	urls    []string // in turn, by every client
	clients int
	count   int                   // how many requests in all; 0: until stop
	stop    <-chan struct{}       // nil: until count
	request func(r *http.Request) // prepares each request; may be nil
	before  func() error          // called before each request; may be nil
	// reloads says that configurations come and go meanwhile. Each has a socket of its own,
	// and the kernel resets connections that still wait in one when it is closed, before
	// Caddy has seen them. Clients then ask again, as any that mean it do.
	reloads bool
}

// run sends the requests and returns when all are answered.
func (l load) run() ([]shot, error) {
	next := make(chan int)
	go func() {
		defer close(next)
		for i := 0; l.count == 0 || i < l.count; i++ {
			select {
			case next <- i:
			case <-l.stop:
				return
			}
		}
	}()
	client := newClient(l.clients)
	defer client.CloseIdleConnections()
	var (
		mu    sync.Mutex
		shots []shot
		first error
		wg    sync.WaitGroup
	)
	for range l.clients {
		wg.Go(func() {
			for i := range next {
				s, err := l.shoot(client, l.urls[i%len(l.urls)])
				mu.Lock()
				shots = append(shots, s)
				if first == nil {
					first = err
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return shots, first
}

// shoot sends one request. Only a story's own mistakes are errors.
func (l load) shoot(client *http.Client, url string) (shot, error) {
	if l.before != nil {
		if err := l.before(); err != nil {
			return shot{}, err
		}
	}
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return shot{}, err
	}
	if l.request != nil {
		l.request(r)
	}
	s := shot{sent: time.Now()}
	resp, err := client.Do(r)
	if l.reloads && unheard(err) {
		resp, err = client.Do(r)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err == nil {
			s.status = resp.StatusCode
		}
	}
	s.done = time.Now()
	return s, nil
}

// unheard reports whether a request's connection ended before an answer came.
func unheard(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// newClient returns a client for that many requests at once, which shows answers as they
// came: it follows no redirects and unpacks nothing.
func newClient(connections int) *http.Client {
	return &http.Client{
		Timeout:       patience,
		Transport:     &http.Transport{MaxIdleConnsPerHost: connections, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// tally counts shots by status: "200=10 429=90".
func tally(shots []shot) string {
	counts := map[int]int{}
	for _, s := range shots {
		counts[s.status]++
	}
	var parts []string
	for status, n := range counts {
		parts = append(parts, fmt.Sprintf("%03d=%d", status, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// slowest returns how long the slowest answer took.
func slowest(shots []shot) time.Duration {
	var most time.Duration
	for _, s := range shots {
		most = max(most, s.done.Sub(s.sent))
	}
	return most
}

package config

import (
	"bufio"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/limiter"
)

// A theatre serves requests behind a zone that lets three in at a time.
type theatre struct {
	t     *testing.T
	meter *Meter
	serve caddyhttp.HandlerFunc
	addr  string

	mu   sync.Mutex
	look limiter.Ask
}

func newTheatre(t *testing.T, serve func(h *theatre, w http.ResponseWriter, r *http.Request) error) *theatre {
	t.Helper()
	h := &theatre{t: t, meter: build(t, `{}`).meter(t, `{"rate_limits": {"seats": {"key": "x", "in_flight": 3}}}`)}
	h.serve = func(w http.ResponseWriter, r *http.Request) error { return serve(h, w, r) }
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	h.addr = server.Listener.Addr().String()
	return h
}

func (h *theatre) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d, err := h.meter.Read(caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server)))
	if err != nil || !d.Allowed || d.Leases == nil {
		h.t.Errorf("not let in: %+v, %v", d, err)
		return
	}
	h.mu.Lock()
	h.look = limiter.Ask{Limit: d.Asks[0].Limit, Key: d.Asks[0].Key}
	h.mu.Unlock()
	leases := d.Leases
	h.meter.Free(d)
	if n := h.left(); n != 2 {
		h.t.Errorf("%d places left during a request, want 2", n)
	}
	if err := leases.Serve(w, r, h.serve); err != nil {
		w.WriteHeader(http.StatusTeapot)
	}
}

// left is how many places there are.
func (h *theatre) left() int64 {
	h.mu.Lock()
	look := h.look
	h.mu.Unlock()
	var r [1]limiter.Result
	if err := h.meter.store.Take(h.t.Context(), []limiter.Ask{look}, r[:]); err != nil {
		h.t.Error(err)
	}
	return r[0].Remaining
}

// visit sends a request and reads until the other side closes the connection.
func (h *theatre) visit() {
	h.t.Helper()
	conn, err := net.Dial("tcp", h.addr)
	if err != nil {
		h.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
		h.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, conn) // an aborted answer may end in an error
}

// await polls for what is bound to come.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); !done(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("never came: %s", what)
		}
	}
}

// L53: whatever way a request ends, its place is free before its answer is complete.
func TestEveryWayOut(t *testing.T) {
	ways := map[string]func(w http.ResponseWriter, r *http.Request) error{
		"answered":     func(w http.ResponseWriter, _ *http.Request) error { _, err := io.WriteString(w, "hello"); return err },
		"nothing said": func(http.ResponseWriter, *http.Request) error { return nil },
		"early refusal": func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusUpgradeRequired)
			return nil
		},
		"error":         func(http.ResponseWriter, *http.Request) error { return errors.New("no") },
		"handler error": func(http.ResponseWriter, *http.Request) error { return caddyhttp.Error(502, nil) },
		"panic":         func(http.ResponseWriter, *http.Request) error { panic("no") },
		"aborted":       func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) },
		"goroutine exit": func(http.ResponseWriter, *http.Request) error {
			runtime.Goexit()
			return nil
		},
		"interim answers": func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusProcessing)
			w.WriteHeader(http.StatusOK)
			return nil
		},
		"in pieces": func(w http.ResponseWriter, _ *http.Request) error {
			for range 3 {
				if _, err := io.WriteString(w, "x"); err != nil {
					return err
				}
				if err := http.NewResponseController(w).Flush(); err != nil {
					return err
				}
				w.(http.Flusher).Flush()
			}
			return nil
		},
		"from a reader": func(w http.ResponseWriter, _ *http.Request) error {
			_, err := w.(io.ReaderFrom).ReadFrom(io.LimitReader(zeros{}, 1<<20))
			return err
		},
		"deadline set": func(w http.ResponseWriter, _ *http.Request) error {
			return http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute))
		},
		"hijacked and closed": func(w http.ResponseWriter, _ *http.Request) error {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return err
			}
			return conn.Close()
		},
		"hijacked, closed, then a panic": func(w http.ResponseWriter, _ *http.Request) error {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				defer conn.Close()
			}
			panic("no")
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			h := newTheatre(t, func(_ *theatre, w http.ResponseWriter, r *http.Request) error { return way(w, r) })
			h.visit()
			if name == "hijacked, closed, then a panic" || name == "goroutine exit" || name == "hijacked and closed" {
				// The connection closes first.
				await(t, "the place is free", func() bool { return h.left() == 3 })
			}
			if n := h.left(); n != 3 {
				t.Errorf("%d places left, want 3", n)
			}
		})
	}
}

// zeros reads as zeros without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// L53, L58: a connection that was taken over keeps its place after the handler has returned,
// until it is closed, however often, or is lost.
func TestHijackedConnectionKeepsItsPlace(t *testing.T) {
	for _, lost := range []bool{false, true} {
		taken := make(chan net.Conn, 1)
		h := newTheatre(t, func(_ *theatre, w http.ResponseWriter, _ *http.Request) error {
			conn, buffer, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return err
			}
			if lost {
				// Only the buffer is left to whoever has it.
				if _, err := buffer.WriteString("bye"); err != nil {
					return err
				}
				return buffer.Flush()
			}
			taken <- conn
			return nil
		})
		client, err := net.Dial("tcp", h.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if lost {
			if text, err := bufio.NewReader(client).ReadString('e'); text != "bye" {
				t.Fatalf("read %q, %v", text, err)
			}
			await(t, "the place of a lost connection is free", func() bool { runtime.GC(); return h.left() == 3 })
			continue
		}
		conn := <-taken
		if _, ok := conn.(interface{ CloseWrite() error }); !ok {
			t.Error("the connection has no CloseWrite any more")
		}
		if _, ok := conn.(io.ReaderFrom); !ok {
			t.Error("the connection has no ReadFrom any more")
		}
		go func() { _, _ = io.Copy(conn, conn) }()
		if _, err := io.WriteString(client, "echo"); err != nil {
			t.Fatal(err)
		}
		if text, err := bufio.NewReader(client).ReadString('o'); text != "echo" {
			t.Errorf("read %q, %v", text, err)
		}
		if n := h.left(); n != 2 {
			t.Errorf("%d places left with an open connection, want 2", n)
		}
		for range 2 {
			_ = conn.Close() // the second time it is an error
			if n := h.left(); n != 3 {
				t.Errorf("%d places left after the connection was closed, want 3", n)
			}
		}
	}
}

// halfConn is a connection with TLS, as far as its kind goes.
type halfConn struct{ net.Conn }

func (halfConn) CloseWrite() error { return nil }

// What can be done with a connection can still be done when it is followed.
func TestFollowedConnections(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	for _, test := range []struct {
		conn net.Conn
		half bool
	}{{a, false}, {halfConn{a}, true}} {
		leases := new(Leases)
		leases.uses.Store(1)
		conn := leases.follow(test.conn)
		if _, ok := conn.(interface{ CloseWrite() error }); ok != test.half {
			t.Errorf("%T: CloseWrite %t, want %t", test.conn, ok, test.half)
		}
		if n := leases.uses.Load(); n != 2 {
			t.Errorf("%d uses, want 2", n)
		}
		conn.Close()
		conn.Close()
		if n := leases.uses.Load(); n != 1 {
			t.Errorf("%d uses after the end, want 1", n)
		}
		runtime.KeepAlive(conn)
	}
}

// A later version of HTTP has no connections to take over, and its writers are not wrapped.
func TestOnlyHTTP1IsWrapped(t *testing.T) {
	for major, wrapped := range map[int]bool{1: true, 2: false, 3: false} {
		w := httptest.NewRecorder()
		leases := new(Leases)
		leases.uses.Store(1)
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.ProtoMajor = major
		err := leases.Serve(w, r, caddyhttp.HandlerFunc(func(got http.ResponseWriter, _ *http.Request) error {
			if (got != http.ResponseWriter(w)) != wrapped {
				t.Errorf("HTTP/%d: the writer is a %T", major, got)
			}
			if _, _, err := http.NewResponseController(got).Hijack(); !errors.Is(err, http.ErrNotSupported) {
				t.Errorf("HTTP/%d: %v, want %v", major, err, http.ErrNotSupported)
			}
			return nil
		}))
		if err != nil || leases.uses.Load() != 0 {
			t.Errorf("HTTP/%d: %v, %d uses", major, err, leases.uses.Load())
		}
	}
}

package redisstore

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
)

// connected returns both ends of a connection, the first as the dialer would.
func connected(t *testing.T) (*warmConn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := dialer(nil, patient)(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		near.Close()
		far.Close()
	})
	return near.(*warmConn), far
}

// looks reports whether whoever looks at a connection gets to see its socket.
func looks(t *testing.T, c *warmConn) (seen bool) {
	t.Helper()
	if err := c.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	socket, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := socket.Read(func(uintptr) bool { seen = true; return true }); err != nil {
		t.Fatal(err)
	}
	return seen
}

// A connection is looked at if it is new or was silent for a while, and its deadlines end then; for a
// moment after an answer it is not.
func TestWarmConnection(t *testing.T) {
	c, far := connected(t)
	if !looks(t, c) {
		t.Error("a new connection is not looked at")
	}
	if _, err := far.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	c.heard.Store(int64(time.Since(dawn) + time.Hour)) // the machine may be slow
	if looks(t, c) {
		t.Error("a warm connection is looked at")
	}
	if err := c.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	c.heard.Store(int64(time.Since(dawn) - warmth))
	if !looks(t, c) {
		t.Error("a connection that has cooled down is not looked at")
	}
	// What is no answer does not make it warm.
	far.Close()
	c.heard.Store(0)
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("got %v", err)
	}
	if c.heard.Load() != 0 {
		t.Error("the end of a connection made it warm")
	}
}

// A connection that a server has closed is noticed before it is used, if the last answer was not just
// now, as it was not before a restart: no call is lost over it.
func TestClosedConnectionIsNoticed(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	store := open(t, s, Options{})
	l := limitOf(limiter.SlidingWindow, 100)
	for range 5 {
		take(t, store, l, "k", 1)
		s.Restart()
		take(t, store, l, "k", 1)
	}
}

// While a server is away the client goes on connecting, however small the pool and however often it
// has failed: a server that is back is found by the next call.
func TestRedialAtOnce(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	store := open(t, s, Options{PoolSize: 1})
	l := limitOf(limiter.SlidingWindow, 100)
	take(t, store, l, "k", 1)
	for range 5 {
		s.Kill()
		_, _ = tryTake(store, l, "k", 1) // may use what is still warm
		for range 3 {
			_, err := tryTake(store, l, "k", 1)
			var refused *net.OpError
			if !isUnavailable(err) || !errors.As(err, &refused) {
				t.Fatalf("without a server: got %v", err)
			}
		}
		s.Restart()
		take(t, store, l, "k", 1)
	}
}

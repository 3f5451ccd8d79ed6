package config

import (
	"bufio"
	"net"
	"net/http"
	"runtime"
	"sync"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// leasedWriter sees a connection being taken over, as for a WebSocket. All else goes to the
// writer that it wraps.
type leasedWriter struct {
	caddyhttp.ResponseWriterWrapper

	leases *Leases
}

// Hijack implements [http.Hijacker]. The request's leases last until the connection is
// closed, or until nobody has it any more.
func (w *leasedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	conn = w.leases.follow(conn)
	// Whoever keeps only the buffer has the connection as well. It is empty as yet.
	buffer.Writer.Reset(conn)
	return conn, buffer, nil
}

// Flush implements [http.Flusher], for handlers that know no other way.
func (w *leasedWriter) Flush() { _ = w.FlushError() }

// FlushError is what [http.ResponseController] looks for.
func (w *leasedWriter) FlushError() error {
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// follow makes a connection one more use of the leases.
func (l *Leases) follow(c net.Conn) net.Conn {
	l.uses.Add(1)
	end := &connEnd{leases: l}
	switch c := c.(type) {
	case *net.TCPConn:
		followed := &leasedTCP{c, end}
		runtime.AddCleanup(followed, (*connEnd).reach, end)
		return followed
	case halfCloser:
		followed := &leasedHalf{c, end}
		runtime.AddCleanup(followed, (*connEnd).reach, end)
		return followed
	}
	followed := &leasedConn{c, end}
	runtime.AddCleanup(followed, (*connEnd).reach, end)
	return followed
}

// connEnd is the end of a connection that was taken over, which comes once.
type connEnd struct {
	once   sync.Once
	leases *Leases
}

func (e *connEnd) reach() { e.once.Do(e.leases.done) }

// A halfCloser is a connection of which one direction can be closed, such as one with TLS.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// leasedTCP, leasedHalf and leasedConn are connections that were taken over. They differ in
// what else those can do: a TCP connection, for instance, hands data on to another inside
// the kernel.
type (
	leasedTCP struct {
		*net.TCPConn

		end *connEnd
	}
	leasedHalf struct {
		halfCloser

		end *connEnd
	}
	leasedConn struct {
		net.Conn

		end *connEnd
	}
)

// Close closes the connection.
func (c *leasedTCP) Close() error {
	defer c.end.reach()
	return c.TCPConn.Close()
}

// Close closes the connection.
func (c *leasedHalf) Close() error {
	defer c.end.reach()
	return c.halfCloser.Close()
}

// Close closes the connection.
func (c *leasedConn) Close() error {
	defer c.end.reach()
	return c.Conn.Close()
}

var (
	_ http.Hijacker = (*leasedWriter)(nil)
	_ http.Flusher  = (*leasedWriter)(nil)
)

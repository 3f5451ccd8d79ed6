package redisstore

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"
)

// dialer returns a function that connects, by TLS unless t is nil.
//
// It always returns a connection. One that could not be made fails when it is first used. The client
// counts failures to connect, and after as many as the pool has room for connections it connects no more, save
// once a second to see whether it could: a server that is back would be found so much later.
func dialer(t *TLS, timeout time.Duration) func(ctx context.Context, network, addr string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: timeout}
	connect := plain.DialContext
	if t != nil {
		connect = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return t.dial(ctx, plain, network, addr)
		}
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := connect(ctx, network, addr)
		if err != nil {
			return nowhere{err}, nil
		}
		return warmed(conn), nil
	}
}

// dial connects by TLS.
func (t *TLS) dial(ctx context.Context, plain *net.Dialer, network, addr string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(addr) // a socket has none
	config, err := t.Config(host)
	if err != nil {
		return nil, err
	}
	conn, err := plain.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}

// nowhere is a connection that could not be made, by what was wrong with that.
type nowhere struct{ why error }

// Read implements [net.Conn].
func (n nowhere) Read([]byte) (int, error) { return 0, n.err() }

// Write implements [net.Conn].
func (n nowhere) Write([]byte) (int, error) { return 0, n.err() }

// err wraps the reason, since the client unwraps what went wrong with a new connection once.
func (n nowhere) err() error { return fmt.Errorf("no connection: %w", n.why) }

// Close implements [net.Conn].
func (nowhere) Close() error { return nil }

// LocalAddr implements [net.Conn].
func (nowhere) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr implements [net.Conn].
func (nowhere) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// SetDeadline implements [net.Conn].
func (nowhere) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements [net.Conn].
func (nowhere) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements [net.Conn].
func (nowhere) SetWriteDeadline(time.Time) error { return nil }

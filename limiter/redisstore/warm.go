package redisstore

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// warmth is for how long a connection that has just brought something is taken to be well.
const warmth = 2 * time.Millisecond

// A warmConn is a connection that is not looked at while it is warm. The client looks at each
// connection before each command, by two changes of its deadlines and a system call, whether the server has
// closed it meanwhile. Under load that costs as much as any other part of a trip, and tells nothing: what it
// would find has happened since the answer before, so that it might as well have happened after the look.
type warmConn struct {
	net.Conn

	socket syscall.Conn
	heard  atomic.Int64 // when something was last read, as a duration since dawn
}

// dawn is the origin of times of which only the distance counts.
var dawn = time.Now()

// warmed returns a connection that is looked at only if it was silent for a while. One that has no
// socket of its own, as with TLS, is not looked at anyway.
func warmed(c net.Conn) net.Conn {
	socket, ok := c.(syscall.Conn)
	if !ok {
		return c
	}
	return &warmConn{Conn: c, socket: socket}
}

// Read notes when something comes.
func (c *warmConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil {
		c.heard.Store(int64(time.Since(dawn)))
	}
	return n, err
}

// SetDeadline is what a look begins with, which ends all deadlines: each command sets its own. If there is
// to be no look, they stay as they are until then.
func (c *warmConn) SetDeadline(t time.Time) error {
	if t.IsZero() && c.warm() {
		return nil
	}
	return c.Conn.SetDeadline(t)
}

func (c *warmConn) warm() bool {
	return time.Since(dawn)-time.Duration(c.heard.Load()) < warmth
}

// SyscallConn implements [syscall.Conn], through which a look is taken.
func (c *warmConn) SyscallConn() (syscall.RawConn, error) {
	if c.warm() {
		return trusted{}, nil
	}
	return c.socket.SyscallConn()
}

// trusted stands for the socket of a connection that is not looked at.
type trusted struct{}

// Read implements [syscall.RawConn]: there is nothing to read.
func (trusted) Read(func(fd uintptr) (done bool)) error { return nil }

// Write implements [syscall.RawConn].
func (trusted) Write(func(fd uintptr) (done bool)) error { return nil }

// Control implements [syscall.RawConn].
func (trusted) Control(func(fd uintptr)) error { return nil }

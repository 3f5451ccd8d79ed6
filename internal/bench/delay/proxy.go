// Package delay puts a distance between a client and a server on one machine: a proxy that
// hands everything on some time later, in order, and at any rate.
package delay

import (
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A Proxy listens on the loopback. What clients send reaches the server later by its delay;
// what the server answers is handed on at once, so that the delay is that of a round trip.
type Proxy struct {
	listener net.Listener
	target   string
	delay    atomic.Int64

	mu    sync.Mutex
	come  *sync.Cond
	queue []parcel  // in the order in which they are due
	last  time.Time // when the latest of them is due
	conns map[net.Conn]bool
	done  bool
}

// A parcel is what was read at once.
type parcel struct {
	due  time.Time
	to   *net.TCPConn
	data []byte
}

// Start starts a proxy to a server at host:port. Close must be called.
func Start(target string, by time.Duration) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, target: target, conns: make(map[net.Conn]bool)}
	p.come = sync.NewCond(&p.mu)
	p.Set(by)
	go p.accept()
	go p.deliver()
	return p, nil
}

// Addr returns where clients find the proxy.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set changes the delay. What is on its way comes when it was due.
func (p *Proxy) Set(by time.Duration) { p.delay.Store(int64(by)) }

// Close ends the proxy and its connections.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = true
	for c := range p.conns {
		c.Close()
	}
	p.come.Broadcast()
	return err
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.carry(c.(*net.TCPConn))
	}
}

// carry serves one connection of a client.
func (p *Proxy) carry(client *net.TCPConn) {
	defer client.Close()
	c, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	server := c.(*net.TCPConn)
	defer server.Close()
	if !p.hold(client, server) {
		return
	}
	defer p.drop(client, server)
	go func() {
		_, _ = io.Copy(client, server) // either side may hang up at any time
		client.Close()
	}()
	for {
		data := make([]byte, 32<<10)
		n, err := client.Read(data)
		if n > 0 {
			p.send(server, data[:n])
		}
		if err != nil {
			return
		}
	}
}

// hold remembers connections for Close; false if that has come already.
func (p *Proxy) hold(all ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range all {
		p.conns[c] = true
	}
	return !p.done
}

func (p *Proxy) drop(all ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range all {
		delete(p.conns, c)
	}
}

// send has data delivered after the delay, and never before what was sent earlier.
func (p *Proxy) send(to *net.TCPConn, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	due := time.Now().Add(time.Duration(p.delay.Load()))
	if due.Before(p.last) {
		due = p.last
	}
	p.last = due
	p.queue = append(p.queue, parcel{due, to, data})
	if len(p.queue) == 1 {
		p.come.Signal()
	}
}

// deliver hands parcels over when they are due. It sleeps by the kernel's clock on a thread of
// its own: timers of an idle Go program are only as good as a millisecond.
func (p *Proxy) deliver() {
	runtime.LockOSThread()
	for {
		all, ok := p.take()
		if !ok {
			return
		}
		for _, next := range all {
			for wait := time.Until(next.due); wait > 0; wait = time.Until(next.due) {
				pause := syscall.NsecToTimespec(int64(wait))
				if err := syscall.Nanosleep(&pause, nil); err != nil && !errors.Is(err, syscall.EINTR) {
					return
				}
			}
			_, _ = next.to.Write(next.data) // a connection that is gone needs nothing
		}
	}
}

// take waits for parcels and returns all there are; false after Close.
func (p *Proxy) take() ([]parcel, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.queue) == 0 && !p.done {
		p.come.Wait()
	}
	all := p.queue
	p.queue = nil
	return all, !p.done
}

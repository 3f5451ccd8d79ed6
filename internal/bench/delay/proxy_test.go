package delay

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// echo starts a server that sends back what it gets.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

func trip(t *testing.T, c net.Conn) time.Duration {
	t.Helper()
	start := time.Now()
	if _, err := c.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	return time.Since(start)
}

func TestDelay(t *testing.T) {
	p, err := Start(echo(t), 30*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c := dial(t, p)
	if took := trip(t, c); took < 30*time.Millisecond {
		t.Errorf("a round trip took %s", took)
	}
	p.Set(0)
	// The other end of the scale cannot be timed on a busy machine: many trips one after
	// the other, of which each would take as long as before.
	start := time.Now()
	for range 100 {
		trip(t, c)
	}
	if took := time.Since(start); took > 100*30*time.Millisecond {
		t.Errorf("without delay 100 round trips took %s", took)
	}
}

// The delay bounds no rate, and nothing overtakes: each of some connections sends far more at
// once than one round trip carries.
func TestOrderAndThroughput(t *testing.T) {
	p, err := Start(echo(t), 5*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var wg sync.WaitGroup
	for k := range 4 {
		c := dial(t, p)
		var sent bytes.Buffer
		for i := range 50_000 {
			fmt.Fprintf(&sent, "%d:%d\n", k, i)
		}
		wg.Go(func() { c.Write(sent.Bytes()) })
		wg.Go(func() {
			got := make([]byte, sent.Len())
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent.Bytes()) {
				t.Errorf("connection %d: not what was sent, %v", k, err)
			}
		})
	}
	wg.Wait()
}

func TestClose(t *testing.T) {
	p, err := Start(echo(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, p)
	trip(t, c)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is still open")
	}
	if c, err := net.Dial("tcp", p.Addr()); err == nil {
		c.Close()
		t.Error("a closed proxy accepts connections")
	}
}

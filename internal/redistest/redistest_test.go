package redistest

import (
	"net"
	"testing"
	"time"
)

func TestLifeOfAServer(t *testing.T) {
	s := Start(t, Options{Password: "sesame", Unix: true})
	if got := s.Do("SET a 1"); got != "+OK" {
		t.Fatalf("SET: got %q", got)
	}
	if got := s.Do("GET a"); got != "1" {
		t.Errorf("GET: got %q, want 1", got)
	}
	if c, err := net.Dial("unix", s.Socket()); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}

	addr := s.Addr()
	s.Restart()
	if s.Addr() != addr {
		t.Errorf("the address changed from %s to %s", addr, s.Addr())
	}
	if got := s.Do("EXISTS a"); got != ":0" {
		t.Errorf("a restart kept the data: EXISTS: got %q", got)
	}

	s.Stop()
	s.Kill() // does nothing
	if c, err := net.Dial("tcp", addr); err == nil {
		c.Close()
		t.Error("a stopped server still accepts connections")
	}
}

func TestPausedServerAcceptsButDoesNotAnswer(t *testing.T) {
	s := Start(t, Options{})
	s.Pause()
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	var b [16]byte
	c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := c.Read(b[:]); err == nil {
		t.Errorf("a paused server answered %q", b[:n])
	}
	s.Resume()
	c.SetReadDeadline(time.Now().Add(patience))
	if n, err := c.Read(b[:]); err != nil || string(b[:n]) != "+PONG\r\n" {
		t.Errorf("after Resume: got %q, %v", b[:n], err)
	}
}

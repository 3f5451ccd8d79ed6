// Package redistest starts private redis-servers for tests: on free ports of the
// loopback, with nothing kept on disk, gone when the test ends.
//
// A server can be stopped, killed, paused and restarted on the same address, so that
// tests can show what a store does meanwhile.
package redistest

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a server may take to start or stop. It bounds polls, it is
// never waited out when all goes well.
const patience = 20 * time.Second

// Options says what kind of server a test wants. The zero value is a plain one, without
// password, on TCP only.
type Options struct {
	// Password of the default user; empty: none.
	Password string
	// Unix adds a socket, see [Server.Socket].
	Unix bool
	// TLS makes the server speak TLS only, and want a certificate of its clients.
	TLS *Certificates
	// Config holds more lines of redis.conf, such as "maxmemory 1mb".
	Config []string

	sentinel bool // not a server but a sentinel
}

// A Server is one redis-server process, or will be after a restart. Its methods are
// for the test's own goroutine.
type Server struct {
	t    testing.TB
	opts Options
	dir  string
	port int
	bus  int // where nodes of a cluster talk to each other; 0 if it is none
	proc *exec.Cmd
	done chan struct{} // closed when proc has ended
}

// Start starts a server and waits until it answers. The test's end kills it.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s := Reserve(t, o)
	s.Restart()
	return s
}

// Reserve picks an address but starts nothing yet: until [Server.Restart] connections to
// it are refused.
func Reserve(t testing.TB, o Options) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatalf("this test needs a redis-server in PATH: apt-get install redis-server, or brew install redis (%v)", err)
	}
	// Not t.TempDir: a socket's path must stay below 108 bytes.
	dir, err := os.MkdirTemp("", "weir-redis-")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, opts: o, dir: dir, port: freePort(t)}
	t.Cleanup(func() {
		s.Kill()
		os.RemoveAll(dir)
	})
	return s
}

// Addr returns the server's host and port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Port returns the server's port.
func (s *Server) Port() string { return strconv.Itoa(s.port) }

// Socket returns the path of the server's socket, if it has one.
func (s *Server) Socket() string { return filepath.Join(s.dir, "redis.sock") }

// Restart starts the server on its address, ending it first if it runs, and waits until
// it answers. What it held is gone.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.Launch()
	s.await("answers", func() bool {
		reply, err := s.try("PING")
		return err == nil && reply == "+PONG"
	})
}

// Launch starts the server without waiting until it answers.
func (s *Server) Launch() {
	s.t.Helper()
	conf := filepath.Join(s.dir, "redis.conf")
	if err := os.WriteFile(conf, []byte(s.config()), 0o600); err != nil {
		s.t.Fatal(err)
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "redis.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	s.proc = exec.Command("redis-server", conf)
	if s.opts.sentinel {
		s.proc.Args = append(s.proc.Args, "--sentinel")
	}
	s.proc.Dir, s.proc.Stdout, s.proc.Stderr = s.dir, log, log
	if err := s.proc.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.done = make(chan struct{})
	go func(p *exec.Cmd, done chan struct{}) {
		p.Wait() // killed servers end with an error
		close(done)
	}(s.proc, s.done)
}

func (s *Server) config() string {
	port := "port "
	if s.opts.TLS != nil {
		port = "port 0\ntls-port "
	}
	lines := []string{
		"bind 127.0.0.1",
		port + strconv.Itoa(s.port),
		"dir " + strconv.Quote(s.dir),
		"daemonize no",
	}
	if !s.opts.sentinel {
		lines = append(lines, `save ""`, "appendonly no")
	}
	if c := s.opts.TLS; c != nil {
		lines = append(lines,
			"tls-ca-cert-file "+strconv.Quote(c.CA),
			"tls-cert-file "+strconv.Quote(c.Cert),
			"tls-key-file "+strconv.Quote(c.Key),
			"tls-replication yes", "tls-cluster yes")
	}
	if s.bus != 0 {
		lines = append(lines, "cluster-enabled yes", "cluster-port "+strconv.Itoa(s.bus))
	}
	if s.opts.Password != "" {
		lines = append(lines, "requirepass "+strconv.Quote(s.opts.Password))
	}
	if s.opts.Unix {
		lines = append(lines, "unixsocket "+strconv.Quote(s.Socket()))
	}
	return strings.Join(append(lines, s.opts.Config...), "\n") + "\n"
}

// Configure adds lines of redis.conf from the next start on.
func (s *Server) Configure(lines ...string) { s.opts.Config = append(s.opts.Config, lines...) }

// Stop ends the server in good order. Stopping one that does not run does nothing.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

// Kill ends the server at once, as a crash would. Killing one that does not run does
// nothing.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

func (s *Server) end(sig syscall.Signal) {
	if s.proc == nil {
		return
	}
	s.proc.Process.Signal(sig) // it may have ended by itself
	select {
	case <-s.done:
	case <-time.After(patience):
		s.t.Errorf("redis-server on %s did not end within %s after %s", s.Addr(), patience, sig)
	}
	s.proc = nil
}

// Pause freezes the server: connections stay open, new ones are accepted by the
// kernel, and nothing is answered until [Server.Resume].
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.proc.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// Do sends one command, words split at spaces, over a connection of its own and returns
// the first line of the reply, type byte included, or the text of a bulk string. An error
// fails the test.
func (s *Server) Do(command string) string {
	s.t.Helper()
	reply, err := s.try(command)
	if err != nil || strings.HasPrefix(reply, "-") {
		s.t.Fatalf("redis-server: %s: got %q, %v\n%s", command, reply, err, s.log())
	}
	return reply
}

// List sends one command as Do does, and returns the strings of its reply.
func (s *Server) List(command string) []string {
	s.t.Helper()
	c, r, err := s.session()
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	head, err := roundTrip(c, r, command)
	n, err2 := strconv.Atoi(strings.TrimPrefix(head, "*"))
	if err != nil || err2 != nil {
		s.t.Fatalf("redis-server: %s: got %q, %v", command, head, err)
	}
	all := make([]string, max(n, 0))
	for i := range all {
		if all[i], err = readReply(r); err != nil {
			s.t.Fatal(err)
		}
	}
	return all
}

// try sends commands as a person at a terminal would (Redis calls them inline).
func (s *Server) try(command string) (string, error) {
	c, r, err := s.session()
	if err != nil {
		return "", err
	}
	defer c.Close()
	return roundTrip(c, r, command)
}

// session returns a connection that has given the password.
func (s *Server) session() (net.Conn, *bufio.Reader, error) {
	c, err := s.dial()
	if err != nil {
		return nil, nil, err
	}
	c.SetDeadline(time.Now().Add(patience))
	r := bufio.NewReader(c)
	if s.opts.Password != "" {
		if reply, err := roundTrip(c, r, "AUTH "+s.opts.Password); err != nil || reply != "+OK" {
			c.Close()
			return nil, nil, fmt.Errorf("AUTH: %q, %w", reply, err)
		}
	}
	return c, r, nil
}

func (s *Server) dial() (net.Conn, error) {
	dialer := &net.Dialer{Timeout: time.Second}
	if s.opts.TLS != nil {
		return tls.DialWithDialer(dialer, "tcp", s.Addr(), s.opts.TLS.client())
	}
	return dialer.Dial("tcp", s.Addr())
}

func roundTrip(c net.Conn, r *bufio.Reader, command string) (string, error) {
	if _, err := fmt.Fprintf(c, "%s\r\n", command); err != nil {
		return "", err
	}
	return readReply(r)
}

// readReply reads a reply, of a list only its first line.
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimRight(line, "\r\n")
	if !strings.HasPrefix(line, "$") {
		return line, nil
	}
	size, err := strconv.Atoi(line[1:])
	if err != nil || size < 0 {
		return "", err
	}
	text := make([]byte, size+len("\r\n"))
	if _, err := io.ReadFull(r, text); err != nil {
		return "", err
	}
	return string(text[:size]), nil
}

func (s *Server) log() string {
	text, err := os.ReadFile(filepath.Join(s.dir, "redis.log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// await polls until cond holds, and fails the test if the server ends or patience does.
func (s *Server) await(what string, cond func() bool) {
	s.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !cond() {
		select {
		case <-tick.C:
		case <-s.done:
			s.t.Fatalf("redis-server ended instead of: %s\n%s", what, s.log())
		case <-deadline:
			s.t.Fatalf("redis-server on %s: still not after %s: %s\n%s", s.Addr(), patience, what, s.log())
		}
	}
}

// freePort finds a port that nobody listens on, below those that systems give to outgoing
// connections: one of these could take it while the server is down.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 10_000 + rand.IntN(20_000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no free port between 10000 and 30000")
	return 0
}

package e2e

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// An exchange is the answer to a request that was sent just as it was written.
type exchange struct {
	status int
	header http.Header
	body   string
}

// raw sends a request to a TCP address, or to a unix socket if it is a path, whose target and
// header lines are written out as they are: nothing is escaped, cleaned or left out.
func raw(t *testing.T, addr, target string, lines ...string) exchange {
	t.Helper()
	network := "tcp"
	if strings.HasPrefix(addr, "/") {
		network = "unix"
	}
	conn, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	host := "Host: site.example\r\n"
	var text strings.Builder
	for _, line := range lines {
		text.WriteString(line + "\r\n")
		if strings.HasPrefix(line, "Host:") {
			host = ""
		}
	}
	request := "GET " + target + " HTTP/1.1\r\n" + host + "Connection: close\r\n" + text.String() + "\r\n"
	// A server that refuses what it has read of a request may close before the rest.
	go func() { _, _ = io.WriteString(conn, request) }()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%.60q: %v", target, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%.60q: %v", target, err)
	}
	return exchange{resp.StatusCode, resp.Header, string(body)}
}

// left is how much of its budget an answer leaves; empty if no limit was asked.
func (e exchange) left() string { return e.header.Get("X-Ratelimit-Remaining") }

// addr is the TCP address of the site.
func (s *site) addr() string { return strings.TrimPrefix(s.url, "http://") }

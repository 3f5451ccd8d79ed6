package e2e

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A wire is a connection on which a story says HTTP/1 byte by byte.
type wire struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func (s *site) dial(t *testing.T) *wire {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &wire{t, c, bufio.NewReader(c)}
}

// say sends lines, the last one empty, and what else is given.
func (c *wire) say(lines ...string) {
	c.t.Helper()
	if _, err := io.WriteString(c, strings.Join(lines, "\r\n")); err != nil {
		c.t.Fatal(err)
	}
}

// hear reads the answer to a request of that method.
func (c *wire) hear(method string) (*http.Response, string) {
	c.t.Helper()
	res, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		c.t.Fatal(err)
	}
	return res, readAll(c.t, res)
}

// closed wants the server to have closed the connection, with nothing more on it.
func (c *wire) closed() {
	c.t.Helper()
	if b, err := c.r.ReadByte(); !errors.Is(err, io.EOF) {
		c.t.Errorf("got %q, %v, want the end of the connection", b, err)
	}
}

// serveActions runs a Caddy with the site of all actions, in clear text.
func serveActions(t *testing.T, options string) *site {
	t.Helper()
	site := strings.Split(actions, "handle_errors")[0] + `respond "through"`
	return serve(t, "{\n"+options+"\n}\nhttp://:{$PORT} {\n"+site+"\n}\n")
}

// TestHTTP10: the first version has neither Host nor chunks, and keeps a connection only if
// asked to.
func TestHTTP10(t *testing.T) {
	t.Parallel()
	s := serveActions(t, "weir {\n tarpit 1 1s\n}")
	c := s.dial(t)
	c.say("GET /limited HTTP/1.0", "X-Client: ten", "Connection: keep-alive", "", "")
	res, _ := c.hear("GET")
	wantAnswer(t, res, 200)
	c.say("GET /limited HTTP/1.0", "X-Client: ten", "Connection: keep-alive", "", "")
	res, body := c.hear("GET")
	wantAnswer(t, res, 429, "Connection", "keep-alive", "Retry-After", "3600")
	if body != "Too Many Requests. Try again in 3600 s.\n" {
		t.Errorf("body %q", body)
	}
	c.say("HEAD /blocked HTTP/1.0", "Connection: keep-alive", "", "")
	res, _ = c.hear("HEAD")
	wantAnswer(t, res, 403, "Connection", "keep-alive")
	c.say("GET /blocked HTTP/1.0", "", "")
	res, _ = c.hear("GET")
	wantAnswer(t, res, 403)
	c.closed()

	c = s.dial(t)
	c.say("GET /tarpit HTTP/1.0", "Connection: keep-alive", "", "")
	if res, body = c.hear("GET"); res.StatusCode != 403 || body != "Forbidden.\n" {
		t.Errorf("tarpit: status %d, body %q", res.StatusCode, body)
	}
	c.closed()

	c = s.dial(t)
	c.say("GET /abort HTTP/1.0", "Connection: keep-alive", "", "")
	c.closed()
}

// TestPipelining sends several requests at once: each has its own answer, in order.
func TestPipelining(t *testing.T) {
	t.Parallel()
	s := serveActions(t, "")
	c := s.dial(t)
	request := func(method, path, client string, more ...string) []string {
		return append([]string{method + " " + path + " HTTP/1.1", "Host: x", "X-Client: " + client}, more...)
	}
	var lines []string
	for _, r := range [][]string{
		request("GET", "/limited", "a", "", ""),
		request("GET", "/limited", "a", "", ""),
		request("GET", "/limited", "b", "", ""),
		// A body that is refused is no next request.
		request("POST", "/blocked", "b", "Content-Length: 32", "", "GET /limited HTTP/1.1\r\nHost: x\r\n\r\n"[:32]),
		request("HEAD", "/blocked", "b", "", ""),
		request("GET", "/", "b", "", ""),
		request("GET", "/abort", "b", "", ""),
		request("GET", "/", "b", "", ""),
	} {
		lines = append(lines, strings.Join(r, "\r\n"))
	}
	c.say(strings.Join(lines, ""))
	for i, want := range []struct {
		method string
		status int
	}{{"GET", 200}, {"GET", 429}, {"GET", 200}, {"POST", 403}, {"HEAD", 403}, {"GET", 200}} {
		if res, _ := c.hear(want.method); res.StatusCode != want.status {
			t.Errorf("answer %d has status %d, want %d", i+1, res.StatusCode, want.status)
		}
	}
	c.closed()
}

// TestExpectContinue: who waits for leave to send a body gets the refusal in its place, and
// no leave; the connection, on which the body may come or not, is closed.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	s := serveActions(t, "weir {\n tarpit 1 1s\n}")
	head := func(path string) []string {
		return []string{"PUT " + path + " HTTP/1.1", "Host: x", "X-Client: e", "Content-Length: 5", "Expect: 100-continue", "", ""}
	}
	for path, want := range map[string]int{"/blocked": 403, "/tarpit": 403} {
		c := s.dial(t)
		c.say(head(path)...)
		res, _ := c.hear("PUT") // an answer of status 100 would be seen as such
		wantAnswer(t, res, want)
		if !res.Close {
			t.Errorf("%s: the connection is not said to end", path)
		}
		c.closed()
	}
	// A client that has leave to send gets it from whoever reads the body, which is not us.
	upstream := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	})
	s = serve(t, "http://:{$PORT} {\n"+strings.Split(actions, "handle_errors")[0]+"reverse_proxy "+upstream+"\n}\n")
	c := s.dial(t)
	c.say(head("/limited")...)
	if res, _ := c.hear("PUT"); res.StatusCode != 100 {
		t.Fatalf("status %d, want 100", res.StatusCode)
	}
	c.say("hello")
	res, body := c.hear("PUT")
	for res.StatusCode == 100 { // the upstream's own, which Caddy hands on
		res, body = c.hear("PUT")
	}
	wantAnswer(t, res, 200)
	if body != "hello" {
		t.Errorf("body %q", body)
	}
	c.say(head("/limited")...)
	res, _ = c.hear("PUT")
	wantAnswer(t, res, 429, "Retry-After", "3600")
	if !res.Close {
		t.Error("the connection is not said to end")
	}
	c.closed()
}

// TestBodiesOfRefusedRequests: a body that is short is taken in, and the connection goes on; one
// that is long is not waited for, and the connection ends.
func TestBodiesOfRefusedRequests(t *testing.T) {
	t.Parallel()
	s := serveActions(t, "")
	c := s.dial(t)
	c.say("POST /blocked HTTP/1.1", "Host: x", "Content-Length: 5", "", "hello")
	c.say("POST /blocked HTTP/1.1", "Host: x", "Transfer-Encoding: chunked", "", "5", "hello", "0", "", "")
	c.say("POST /blocked HTTP/1.1", "Host: x", "Content-Length: 1000000", "", "")
	for i, more := range []bool{true, true, false} {
		res, _ := c.hear("POST")
		wantAnswer(t, res, 403)
		if res.Close == more {
			t.Errorf("answer %d: the connection goes on: %v", i+1, !res.Close)
		}
	}
	c.closed()
}

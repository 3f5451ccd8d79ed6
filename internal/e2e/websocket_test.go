package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// websocketUpstream accepts every upgrade and sends back what comes.
func websocketUpstream(t *testing.T) string {
	t.Helper()
	return upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			w.WriteHeader(http.StatusUpgradeRequired)
			return
		}
		c, buffer, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		// The accept value belongs to the key that upgrade sends (RFC 6455, section 1.3).
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
			"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
		_, _ = io.Copy(c, buffer) // until the client goes
	})
}

// upgrade asks for a WebSocket.
func (c *wire) upgrade(path string, more ...string) *http.Response {
	c.t.Helper()
	lines := []string{
		"GET " + path + " HTTP/1.1", "Host: x", "Upgrade: websocket", "Connection: Upgrade",
		"Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
	}
	c.say(append(lines, append(more, "", "")...)...)
	res, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		readAll(c.t, res)
	}
	return res
}

// TestWebSocket: an upgrade is a request like another. What is refused stays HTTP, on a
// connection that goes on; what is allowed is a WebSocket, and its messages are not counted.
func TestWebSocket(t *testing.T) {
	t.Parallel()
	s := serve(t, `
http://:{$PORT} {
	block {
		rule no_socket {
			path /blocked
		}
		rule rude {
			path /abort
			action abort
		}
	}
	rate_limit {
		zone sockets {
			key {header.X-Client}
			limit 2/1h
		}
	}
	reverse_proxy `+websocketUpstream(t)+`
}
`)
	c := s.dial(t)
	wantAnswer(t, c.upgrade("/blocked"), 403)
	c.say("GET /blocked HTTP/1.1", "Host: x", "", "")
	res, _ := c.hear("GET")
	wantAnswer(t, res, 403)

	for range 2 {
		res := c.upgrade("/", "X-Client: a")
		wantAnswer(t, res, 101, "Ratelimit-Policy", `"sockets";q=2;w=3600`, "Upgrade", "websocket")
		message := strings.Repeat("frame", 1000)
		c.say(message)
		if got, err := io.ReadAll(io.LimitReader(c.r, int64(len(message)))); err != nil || string(got) != message {
			t.Errorf("%d bytes came back: %v", len(got), err)
		}
		c.Close()
		c = s.dial(t)
	}
	wantAnswer(t, c.upgrade("/", "X-Client: a"), 429, "Retry-After", "3600", "Upgrade", "")
	// One that the upstream refuses counts, and the connection goes on.
	c.say("GET / HTTP/1.1", "Host: x", "X-Client: b", "", "")
	res, _ = c.hear("GET")
	wantAnswer(t, res, 426)
	wantAnswer(t, c.upgrade("/", "X-Client: b"), 101)

	c = s.dial(t)
	c.say("GET /abort HTTP/1.1", "Host: x", "Upgrade: websocket", "Connection: Upgrade", "", "")
	c.closed()
}

package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// everywhere is a Caddyfile with one site that is served in every protocol: at PORT in clear
// text, at TLS encrypted. SITE stands for what is in it.
const everywhere = `{
	skip_install_trust
	auto_https disable_redirects
	servers {
		protocols h1 h2 h2c h3
	}
	OPTIONS
}
(site) {
	SITE
}
http://localhost:{$PORT} {
	import site
}
https://localhost:{$TLS} {
	import site
}
`

// serveEverywhere runs a Caddy with a site in every protocol. It returns its address with
// TLS beside the one without.
func serveEverywhere(t *testing.T, options, site string) (s *site, encrypted string) {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	config := strings.NewReplacer("OPTIONS", options, "SITE", site).Replace(everywhere)
	s = serve(t, config, "TLS="+port)
	s.url = strings.Replace(s.url, "127.0.0.1", "localhost", 1)
	// Caddy makes the certificate while it serves already.
	ready := poll(func() bool {
		c, err := tls.Dial("tcp", "localhost:"+port, untrusted)
		return err == nil && c.Close() == nil
	})
	if !ready {
		t.Fatal("there is no certificate")
	}
	return s, "https://localhost:" + port
}

// untrusted is for certificates of an authority that was made a moment ago.
var untrusted = &tls.Config{InsecureSkipVerify: true}

// A protocol is a way to talk to a site.
type protocol struct {
	name  string
	major int
	url   string
	http.RoundTripper
}

// protocolsOf returns a client for each protocol, all with one connection at most where one
// can carry several requests.
func protocolsOf(t *testing.T, s *site, encrypted string) []protocol {
	t.Helper()
	tcp := func(change func(p *http.Protocols)) *http.Transport {
		p := new(http.Protocols)
		change(p)
		tr := &http.Transport{Protocols: p, TLSClientConfig: untrusted.Clone(), DisableCompression: true, ExpectContinueTimeout: patience}
		t.Cleanup(tr.CloseIdleConnections)
		return tr
	}
	h3 := &http3.Transport{
		TLSClientConfig: untrusted.Clone(), DisableCompression: true,
		// The transport forgets a connection on which a request failed, and the server would
		// wait for it when it stops.
		Dial: func(ctx context.Context, address string, trust *tls.Config, config *quic.Config) (*quic.Conn, error) {
			c, err := quic.DialAddrEarly(ctx, address, trust, config)
			if err == nil {
				t.Cleanup(func() { _ = c.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "") })
			}
			return c, err
		},
	}
	t.Cleanup(func() { h3.Close() })
	return []protocol{
		{"http1", 1, s.url, tcp(func(p *http.Protocols) { p.SetHTTP1(true) })},
		{"http1 over tls", 1, encrypted, tcp(func(p *http.Protocols) { p.SetHTTP1(true) })},
		{"h2c", 2, s.url, tcp(func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) })},
		{"h2", 2, encrypted, tcp(func(p *http.Protocols) { p.SetHTTP2(true) })},
		{"h3", 3, encrypted, h3},
	}
}

// each runs a test in every protocol.
func each(t *testing.T, all []protocol, test func(t *testing.T, p protocol)) {
	for _, p := range all {
		t.Run(p.name, func(t *testing.T) { test(t, p) })
	}
}

// send sends a request and returns the answer, whose body the caller has to read. Header
// fields are given as name and value in turn. A content length of -1 is one that is unknown.
func (p protocol) send(t *testing.T, method, path string, body io.Reader, header ...string) (*http.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, p.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := p.RoundTrip(r)
	if err == nil && res.ProtoMajor != p.major {
		t.Fatalf("the answer is HTTP/%d", res.ProtoMajor)
	}
	return res, err
}

// get sends a request that has to be answered, and reads the whole answer.
func (p protocol) get(t *testing.T, method, path string, header ...string) (*http.Response, string) {
	t.Helper()
	res, err := p.send(t, method, path, nil, header...)
	if err != nil {
		t.Fatal(err)
	}
	return res, readAll(t, res)
}

func readAll(t *testing.T, res *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil {
		t.Error(err)
	}
	return string(body)
}

// wantAnswer compares an answer's status and header fields, which are given as name and value.
func wantAnswer(t *testing.T, res *http.Response, status int, header ...string) {
	t.Helper()
	if res.StatusCode != status {
		t.Errorf("status %d, want %d", res.StatusCode, status)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if got := res.Header.Get(header[i]); got != header[i+1] {
			t.Errorf("%s is %q, want %q", header[i], got, header[i+1])
		}
	}
}

const actions = `
	block {
		rule blocked {
			path /blocked
		}
		rule rude {
			path /abort
			action abort
		}
		rule slow {
			path /tarpit
			action tarpit
		}
		allow {
			header X-Staff yes
		}
	}
	rate_limit {
		zone limited {
			match {
				path /limited
			}
			key {header.X-Client}
			limit 1/1h
		}
	}
	handle_errors {
		respond "error page" 418
	}
	respond "through"
`

// TestRefusedInEveryProtocol: L115, L118.
func TestRefusedInEveryProtocol(t *testing.T) {
	t.Parallel()
	s, encrypted := serveEverywhere(t, "", strings.Replace(actions, `respond "error page" 418`, `respond "error page" {err.status_code}`, 1))
	plain, encryptedPlain := serveEverywhere(t, "", strings.Split(actions, "handle_errors")[0]+"respond \"through\"\n")
	each(t, protocolsOf(t, plain, encryptedPlain), func(t *testing.T, p protocol) {
		res, body := p.get(t, "GET", "/limited", "X-Client", p.name)
		wantAnswer(t, res, 200, "Ratelimit", `"limited";r=0;t=3600`)
		if body != "through" {
			t.Errorf("allowed: body %q", body)
		}
		refused := []string{
			"Retry-After", "3600", "Cache-Control", "no-store", "Content-Type", "text/plain; charset=utf-8",
			"Ratelimit", `"limited";r=0;t=3600`, "Content-Length", "41",
		}
		const text = "Too Many Requests. Try again in 3600 s.\n"
		refused[len(refused)-1] = fmt.Sprint(len(text))
		res, body = p.get(t, "GET", "/limited", "X-Client", p.name)
		wantAnswer(t, res, 429, refused...)
		if body != text {
			t.Errorf("refused: body %q", body)
		}
		res, body = p.get(t, "HEAD", "/limited", "X-Client", p.name)
		wantAnswer(t, res, 429, refused...)
		if body != "" {
			t.Errorf("HEAD: body %q", body)
		}
		res, body = p.get(t, "POST", "/blocked", "Accept", "application/json")
		wantAnswer(t, res, 403, "Retry-After", "", "Content-Type", "application/problem+json")
		if body != `{"title":"Forbidden","status":403}` {
			t.Errorf("blocked: body %q", body)
		}
		res, _ = p.get(t, "GET", "/blocked", "X-Staff", "yes")
		wantAnswer(t, res, 200)
	})
	// L119: pages of one's own, with our fields.
	each(t, protocolsOf(t, s, encrypted), func(t *testing.T, p protocol) {
		p.get(t, "GET", "/limited", "X-Client", p.name)
		res, body := p.get(t, "GET", "/limited", "X-Client", p.name)
		wantAnswer(t, res, 429, "Retry-After", "3600", "Cache-Control", "no-store", "Ratelimit", `"limited";r=0;t=3600`)
		if body != "error page" {
			t.Errorf("body %q", body)
		}
	})
}

// TestAbortInEveryProtocol: the request has no answer, and the next one is none the worse.
func TestAbortInEveryProtocol(t *testing.T) {
	t.Parallel()
	s, encrypted := serveEverywhere(t, "", actions)
	each(t, protocolsOf(t, s, encrypted), func(t *testing.T, p protocol) {
		for range 3 {
			if res, err := p.send(t, "GET", "/abort", nil); err == nil {
				t.Errorf("answered with status %d", res.StatusCode)
			} else if errors.Is(err, context.DeadlineExceeded) {
				t.Error("the connection was left open")
			}
			res, _ := p.get(t, "GET", "/")
			wantAnswer(t, res, 200)
		}
	})
	if err := s.waitLog(`"request blocked".*"rule":"rude","outcome":"aborted"`); err != nil {
		t.Error(err)
	}
}

// endless is the body of an upload that never ends by itself.
type endless struct {
	sent int
	done chan struct{}
}

func (e *endless) Read(b []byte) (int, error) {
	select {
	case <-e.done:
		return 0, io.EOF
	default:
		e.sent += len(b)
		return len(b), nil
	}
}

// TestUploadsAreRefusedEarly sends bodies that do not end: the refusal comes before them.
func TestUploadsAreRefusedEarly(t *testing.T) {
	t.Parallel()
	s, encrypted := serveEverywhere(t, "", strings.Replace(actions, "handle_errors", "handle_errors 599", 1))
	each(t, protocolsOf(t, s, encrypted), func(t *testing.T, p protocol) {
		body := &endless{done: make(chan struct{})}
		defer close(body.done)
		begun := time.Now()
		res, err := p.send(t, "PUT", "/blocked", body)
		if err != nil {
			t.Fatal(err)
		}
		wantAnswer(t, res, 403)
		if text := readAll(t, res); text != "Forbidden.\n" {
			t.Errorf("body %q", text)
		}
		if took := time.Since(begun); took > patience/2 {
			t.Errorf("the refusal took %s", took)
		}
		res, _ = p.get(t, "GET", "/")
		wantAnswer(t, res, 200)
	})
}

// TestTrailersPass: what an upstream says behind its body comes through; a refusal in its place
// has none.
func TestTrailersPass(t *testing.T) {
	t.Parallel()
	upstream := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what a client sent before it broke off is no matter here
		w.Header().Set("Trailer", "X-Sum")
		fmt.Fprintf(w, "%s", body)
		w.Header().Set("X-Sum", fmt.Sprintf("%d %s", len(body), r.Trailer.Get("X-Client-Sum")))
	})
	s, encrypted := serveEverywhere(t, "", strings.Replace(strings.Split(actions, "handle_errors")[0], "/blocked", "/refused", 1)+"reverse_proxy "+upstream+"\n")
	each(t, protocolsOf(t, s, encrypted), func(t *testing.T, p protocol) {
		r, err := http.NewRequestWithContext(t.Context(), "POST", p.url+"/limited", io.NopCloser(strings.NewReader("hello")))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Client", p.name)
		r.Trailer = http.Header{"X-Client-Sum": {"5"}}
		res, err := p.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		wantAnswer(t, res, 200)
		sum := "5 5"
		if p.major == 3 {
			sum = "5" // this client sends no trailers
		}
		if body := readAll(t, res); body != "hello" || res.Trailer.Get("X-Sum") != sum {
			t.Errorf("body %q, trailers %v", body, res.Trailer)
		}
		res, body := p.get(t, "POST", "/limited", "X-Client", p.name, "TE", "trailers")
		wantAnswer(t, res, 429)
		if len(res.Trailer) > 0 || !strings.HasPrefix(body, "Too Many") {
			t.Errorf("body %q, trailers %v", body, res.Trailer)
		}
	})
}

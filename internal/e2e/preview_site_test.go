package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	caddyserver "github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

const (
	mastodon = "http.rb/5.1.1 (Mastodon/4.2.10; +https://one.example/)"
	discord  = "Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)"
	browser  = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
)

// A linked is a site to whose pages links are posted: a real Caddy before a real upstream, which
// counts what reaches it.
type linked struct {
	*testing.T
	server  *caddyhttp.Server
	asked   atomic.Int32
	methods sync.Map // of the requests that reached the site
	zone    string
	lines   string
	to      string
}

// zones makes the names of zones, whose copies and counts would else survive from test to test.
var zones atomic.Int32

// newLinked runs a zone with these lines before a handler. A clock that the test moves is a matter of
// feeds; this one runs.
func newLinked(t *testing.T, lines string, handler http.HandlerFunc) *linked {
	t.Helper()
	l := &linked{T: t, zone: "previews" + strconv.Itoa(int(zones.Add(1))), lines: lines}
	l.to = upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		l.asked.Add(1)
		l.methods.Store(r.Method, true)
		handler(w, r)
	})
	l.server = loadSite(t, l.caddyfile())
	return l
}

func (l *linked) caddyfile() string {
	return fmt.Sprintf(`{
	servers {
		trusted_proxies static 192.0.2.0/24
		trusted_proxies_strict
	}
}
http:// {
	rate_limit {
		zone %s {
			%s
		}
	}
	encode gzip
	reverse_proxy %s
}
`, l.zone, strings.ReplaceAll(l.lines, "\n", "\n\t\t\t"), l.to)
}

// request makes a request from an address of its own, behind a trusted proxy.
func (l *linked) request(method, target, agent string, i int, header ...string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	r.RemoteAddr = "192.0.2.1:4711"
	r.Header.Set("X-Forwarded-For", fmt.Sprintf("198.51.%d.%d", 100+i/250, i%250+1))
	r.Header.Set("User-Agent", agent)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func (l *linked) get(target, agent string, header ...string) *httptest.ResponseRecorder {
	return answer(l.server, l.request(http.MethodGet, target, agent, 0, header...))
}

// want says what a request should come to, and how many have reached the site by then.
func (l *linked) want(status int, asked int32, w *httptest.ResponseRecorder) {
	l.Helper()
	if w.Code != status || l.asked.Load() != asked {
		l.Errorf("status %d, want %d; %d reached the site, want %d; %v", w.Code, status, l.asked.Load(), asked, w.Header())
	}
}

// uses is what the metrics say of the zone's copies.
func (l *linked) uses() map[string]int { return copyUses(l.T, l.zone) }

// waitingIn is how many requests of a zone wait, as the metrics say.
func waitingIn(t *testing.T, zone string) int {
	t.Helper()
	return samples(t, "caddy_weir_copies_waiting", zone)[""]
}

// copyUses is what the metrics say of a zone's copies: those that were of some use or none.
func copyUses(t *testing.T, zone string) map[string]int {
	t.Helper()
	return samples(t, "caddy_weir_copies_total", zone)
}

// samples is what a metric says of a zone, by outcome, where that is not 0.
func samples(t *testing.T, metric, zone string) map[string]int {
	t.Helper()
	ctx := caddyserver.ActiveContext()
	families, err := ctx.GetMetricsRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]int)
	for _, f := range families {
		if f.GetName() != metric {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := make(map[string]string)
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if n := int(m.GetCounter().GetValue() + m.GetGauge().GetValue()); labels["zone"] == zone && n > 0 {
				found[labels["outcome"]] = n
			}
		}
	}
	return found
}

// together sends requests at once, and returns their answers.
func (l *linked) together(requests ...*http.Request) []*httptest.ResponseRecorder {
	answers := make([]*httptest.ResponseRecorder, len(requests))
	var wg sync.WaitGroup
	for i, r := range requests {
		wg.Go(func() { answers[i] = answer(l.server, r) })
	}
	wg.Wait()
	return answers
}

// waiting waits until so many requests wait for one that is under way.
func (l *linked) waiting(n int) {
	l.Helper()
	if !poll(func() bool { return waitingIn(l.T, l.zone) == n }) {
		l.Fatalf("%d requests wait, and not %d", waitingIn(l.T, l.zone), n)
	}
}

// within runs something that has to end, and waits for it.
func (l *linked) within(what string, done <-chan struct{}) {
	l.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		l.Fatalf("%s did not end", what)
	}
}

// gate returns what upstreams wait for, and what opens it; it has to be opened before the test ends.
func gate() (shut <-chan struct{}, open func()) {
	c := make(chan struct{})
	return c, sync.OnceFunc(func() { close(c) })
}

// cancelled returns a request whose client leaves by the function.
func cancelled(r *http.Request) (*http.Request, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	return r.WithContext(ctx), cancel
}

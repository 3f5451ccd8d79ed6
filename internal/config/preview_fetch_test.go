package config

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/internal/copies"
)

// TestPreviewOutdated: an answer that is older than a copy is not kept, and who waits for it hears at once
// whether the copy is for them, instead of asking for the old answer one after the other.
func TestPreviewOutdated(t *testing.T) {
	now := feedClock(t)
	modified := func(ago time.Duration) string { return now.Add(-ago).Format(http.TimeFormat) }
	for name, c := range map[string]struct {
		coding string // of the copy
		after  bool   // whether it is made after the answer has begun
		want   copies.End
	}{
		"before it":                     {"", false, copies.Landed},
		"before it, in a coding":        {"gzip", false, copies.Empty},
		"while it is sent":              {"", true, copies.Landed},
		"while it is sent, in a coding": {"gzip", true, copies.Empty},
	} {
		m := build(t, `{}`).meter(t, `{"rate_limits": {"outdated `+name+`": {"previews": {}}}}`)
		r := from("203.0.113.1", "/", "User-Agent", "Twitterbot/1.0")
		p := m.Preview(r)
		shelf, flights := p.meter.shelf, p.meter.flights
		leader, _ := flights.Enter(p.key)
		waits, leads := flights.Enter(p.key)
		if waits == nil || leads {
			t.Fatal("nobody waits")
		}
		another := func() {
			h := http.Header{"Last-Modified": {modified(time.Minute)}, "Content-Encoding": {c.coding}}
			rec, _ := shelf.Record(p.key, r, http.StatusOK, h, *now)
			_, _ = rec.Write([]byte("new"))
			if !rec.Keep(*now, now.Add(time.Minute)) {
				t.Fatal("the newer one is not kept")
			}
		}
		site := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
			if !c.after {
				another()
			}
			w.Header().Set("Age", "5")
			w.Header().Set("Last-Modified", modified(time.Hour))
			_, err := w.Write([]byte("old"))
			if c.after {
				*now = now.Add(5 * time.Second) // nobody else may record it sooner
				another()
			}
			return err
		})
		w := httptest.NewRecorder()
		if err := p.fetch(w, r, site, func(next caddyhttp.Handler) error { return next.ServeHTTP(w, r) }, leader); err != nil {
			t.Fatal(err)
		}
		if end := waits.Wait(t.Context(), nil); end != c.want {
			t.Errorf("%s: the wait ended with %d, want %d", name, end, c.want)
		}
	}
}

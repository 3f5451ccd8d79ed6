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
	for coding, want := range map[string]copies.End{"": copies.Landed, "gzip": copies.Empty} {
		m := build(t, `{}`).meter(t, `{"rate_limits": {"outdated`+coding+`": {"previews": {}}}}`)
		r := from("203.0.113.1", "/", "User-Agent", "Twitterbot/1.0")
		p := m.Preview(r)
		shelf, flights := p.meter.shelf, p.meter.flights
		leader, _ := flights.Enter(p.key)
		waits, leads := flights.Enter(p.key)
		if waits == nil || leads {
			t.Fatal("nobody waits")
		}
		site := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			newer := http.Header{"Last-Modified": {modified(time.Minute)}}
			if coding != "" {
				newer.Set("Content-Encoding", coding)
			}
			rec, _ := shelf.Record(p.key, r, http.StatusOK, newer, *now)
			_, _ = rec.Write([]byte("new"))
			if !rec.Keep(*now, now.Add(time.Minute)) {
				t.Fatal("the newer one is not kept")
			}
			w.Header().Set("Age", "5")
			w.Header().Set("Last-Modified", modified(time.Hour))
			_, err := w.Write([]byte("old"))
			return err
		})
		w := httptest.NewRecorder()
		if err := p.fetch(w, r, site, func(next caddyhttp.Handler) error { return next.ServeHTTP(w, r) }, leader); err != nil {
			t.Fatal(err)
		}
		if end := waits.Wait(t.Context(), nil); end != want {
			t.Errorf("a newer copy in the coding %q: the wait ended with %d, want %d", coding, end, want)
		}
	}
}

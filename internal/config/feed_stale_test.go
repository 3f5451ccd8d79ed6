package config

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// TestStaleOutdated: what a cache that lags behind says, of before the copy was made, takes no copy away and
// none's place. The site's own word does.
func TestStaleOutdated(t *testing.T) {
	answer := func(status int, body string, fields ...string) caddyhttp.Handler {
		return caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
			for i := 0; i < len(fields); i += 2 {
				w.Header().Set(fields[i], fields[i+1])
			}
			w.WriteHeader(status)
			_, err := w.Write([]byte(body))
			return err
		})
	}
	for name, c := range map[string]struct {
		then caddyhttp.Handler
		want string // what is given when the site fails; empty for nothing
	}{
		"an old 404":     {answer(404, "", "Age", "3600"), "<rss>"},
		"an old private": {answer(200, "<mine>", "Age", "3600", "Cache-Control", "private"), "<rss>"},
		"an old version": {answer(200, "<old>", "Age", "3600", "Etag", `"v0"`), "<rss>"},
		"a 404":          {answer(404, ""), ""},
		"a late 404":     {answer(404, "", "Age", "60"), ""},
		"a private":      {answer(200, "<mine>", "Cache-Control", "private"), ""},
		"a version":      {answer(200, "<new>", "Etag", `"v2"`), "<new>"},
	} {
		now := feedClock(t)
		m := feedMeterOf(t, `"stale `+name+`": {"feed": {"stale": "1d"}}`)
		visit := func(site caddyhttp.Handler) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			m.readSite(t, w, from("203.0.113.1", "/feed.xml", "Accept-Language", name), site)
			*now = now.Add(30 * time.Minute)
			return w
		}
		visit(siteUp)
		visit(c.then)
		w := visit(answer(http.StatusBadGateway, ""))
		if ok := w.Code == http.StatusOK; ok != (c.want != "") || w.Body.String() != c.want {
			t.Errorf("%s: status %d, %q", name, w.Code, w.Body)
		}
	}
}

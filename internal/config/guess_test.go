package config

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// A limit that is counted afterwards holds while Redis is away, whatever on_store_error says of
// the limits beside it.
func TestCountAfterBesideGuesses(t *testing.T) {
	for word, want := range map[string]int{"allow": 3, "deny": 0, "local": 3} {
		for _, order := range [][2]string{{"a", "b"}, {"b", "a"}} {
			m := build(t, `{"redis": {"addresses": ["127.0.0.1:1"]}, "on_store_error": "`+word+`"}`).meter(t, `{"rate_limits": {
				"`+order[0]+` now `+word+`": {"key": "x", "max_events": 100, "window": "1h"},
				"`+order[1]+` after `+word+`": {"key": "x", "max_events": 3, "window": "1h", "count_after": "1s"}}}`)
			passed := 0
			for range 10 {
				r := httptest.NewRequest("GET", "/", nil)
				d, err := m.Read(r)
				if err != nil {
					t.Fatal(err)
				}
				if !d.Allowed {
					m.Free(d)
					continue
				}
				passed++
				if err := m.Serve(d, httptest.NewRecorder(), r, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })); err != nil {
					t.Fatal(err)
				}
			}
			if passed != want {
				t.Errorf("%s, %s first: %d passed, want %d", word, order[0], passed, want)
			}
		}
	}
}

package config

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

func TestPreviewsMeaning(t *testing.T) {
	for zone, want := range map[string]string{
		`"previews": {}`: "",
		`"previews": {"hold": "1h", "wait": "1m"}`:    "",
		`"previews": {"agents": {"Own": ["Own/*"]}}`:  "",
		`"previews": {"hold": "500ms"}`:               "previews: hold: must be between 1s and 1h, got 500ms",
		`"previews": {"hold": "2h"}`:                  "previews: hold: must be between 1s and 1h, got 2h0m0s",
		`"previews": {"wait": "1ms"}`:                 "previews: wait: must be between 100ms and 1m, got 1ms",
		`"previews": {"memory": 1000}`:                "previews: memory: must be between 65536 and 1099511627776 bytes, got 1000",
		`"previews": {"memory": -1}`:                  "previews: memory: must be between",
		`"previews": {"no_builtin": true}`:            "previews: agents: must be at least one with no_builtin",
		`"previews": {"agents": {"Own": ["*a*"]}}`:    `previews: agents: Own: "*a*" must have 4 characters in a row that are no star`,
		`"previews": {"agents": {"Own": []}}`:         "previews: agents: Own: must have a pattern",
		`"previews": {"agents": {"": ["Own/*"]}}`:     "previews: agents: a family must have a name",
		`"previews": {}, "feed": {}`:                  "previews: cannot be had with feed",
		`"feed": {"stale": "1d"}`:                     "",
		`"feed": {"stale": "1ms"}`:                    "feed: stale: must be between 1s and",
		`"feed": {"stale": "1d", "stale_memory": 10}`: "feed: stale_memory: must be between 65536 and",
		`"feed": {"stale_memory": 1000000}`:           "feed: stale_memory: needs stale",
	} {
		err := rateLimit(t, `{"rate_limits": {"z": {`+zone+`}}}`).Validate()
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", zone, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", zone, err, want)
		}
	}
}

// TestPreviewFamily: the family is a placeholder, and the key of a zone that has none.
func TestPreviewFamily(t *testing.T) {
	m := build(t, `{}`).meter(t, `{"rate_limits": {
		"families": {"previews": {}, "max_events": 2, "window": "1h"},
		"others": {"key": "x", "max_events": 100, "window": "1h"}}}`)
	for _, step := range []struct {
		agent, family string
		left          int64
	}{
		{"Mastodon/4.3.0 (http.rb/5.2.0; +https://one.example/)", "Mastodon", 1},
		{"http.rb/5.1.1 (Mastodon/4.2.10; +https://two.example/)", "Mastodon", 0},
		{"Twitterbot/1.0", "Twitter", 1},
		{"Mastodon/4.3.0 (http.rb/5.2.0; +https://three.example/)", "Mastodon", refused},
		{"Mozilla/5.0", "", 96},
	} {
		r := from("203.0.113.1", "/", "User-Agent", step.agent)
		if got := spend(t, m, r); got != step.left {
			t.Errorf("%s: %d left, want %d", step.agent, got, step.left)
		}
		repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		if got := repl.ReplaceAll("{http.rate_limit.preview}", ""); got != step.family {
			t.Errorf("%s: %q", step.agent, got)
		}
	}
}

// TestCommonKeys: only a key that says nothing of the client makes a limit one on all together.
func TestCommonKeys(t *testing.T) {
	for key, want := range map[string]bool{
		``: true, `"key": "all",`: true, `"key": ["{http.request.host}", "{http.request.uri.path}"],`: true,
		`"key": "{http.vars.client_ip}",`: false, `"key": ["x", "{http.request.header.X-Key}"],`: false, `"key": "{http.request.uri.query}",`: false,
	} {
		m := build(t, `{}`).meter(t, `{"rate_limits": {"common": {`+key+` "max_events": 1, "window": "1h"}}}`)
		if got := m.zones[0].common; got != want {
			t.Errorf("%s: %v", key, got)
		}
	}
}

// TestPreviewRewritten: whose paths handle_path has stripped, or try_files sent to one script, are not
// given the copies of each other.
func TestPreviewRewritten(t *testing.T) {
	m := build(t, `{}`).meter(t, `{"rate_limits": {"rewritten": {"previews": {}}}}`)
	key := func(came, is string) string {
		r := from("203.0.113.1", came, "User-Agent", "Twitterbot/1.0")
		r.URL.Path = is
		return m.Preview(r).key
	}
	if a, b := key("/a/", "/"), key("/b/", "/"); a == b || a == key("/", "/") {
		t.Errorf("one key for two addresses: %q", a)
	}
	if a, b := key("/a/", "/"), key("/a/", "/"); a != b {
		t.Errorf("two keys for one address: %q, %q", a, b)
	}
}

const firefox = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:128.0) Gecko/20100101 Firefox/128.0"

// TestPreviewsCostOthersNothing: a request of another program allocates no more where there is a zone
// for previews.
func TestPreviewsCostOthersNothing(t *testing.T) {
	m := build(t, `{}`).meter(t, `{"rate_limits": {"cost": {"previews": {}}}}`)
	r := from("203.0.113.1", "/", "User-Agent", firefox)
	if n := testing.AllocsPerRun(100, func() {
		if m.Preview(r) != nil {
			t.Fatal("a browser shows previews")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkPreviews measures what a zone for previews costs a request of another program, and what an
// answer from memory takes.
func BenchmarkPreviews(b *testing.B) {
	m := feedMeterOf(b, `"bench": {"previews": {}}`)
	b.Run("other", func(b *testing.B) {
		r := from("203.0.113.1", "/", "User-Agent", firefox)
		b.ReportAllocs()
		for b.Loop() {
			m.Preview(r)
		}
	})
	b.Run("hit", func(b *testing.B) {
		r := from("203.0.113.1", "/", "User-Agent", "Mastodon/4.3.0 (http.rb/5.2.0; +https://one.example/)")
		rec, _ := m.previews[0].previews.shelf.Record(m.Preview(r).key, r, 200, nil, Now())
		_, _ = rec.Write(make([]byte, 1000))
		rec.Keep(Now(), Now().AddDate(1, 0, 0))
		b.ReportAllocs()
		for b.Loop() {
			if err := m.Preview(r).Serve(httptest.NewRecorder(), r, nil, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

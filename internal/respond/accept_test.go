package respond

import (
	"strings"
	"testing"
)

func TestAsksJSON(t *testing.T) {
	tests := []struct {
		accept string // values apart by |
		want   bool
	}{
		{"", false},
		{"*/*", false},
		{"application/json", true},
		{"APPLICATION/JSON", true},
		{"application/problem+json", true},
		{"application/vnd.github+json", true},
		{"application/json; charset=utf-8", true},
		{"application/json, text/plain, */*", true},
		{"text/plain, application/json", false},
		{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", false},
		{"text/html;q=0.5, application/json", true},
		{"text/html, application/json;q=0.9", false},
		{"application/json;q=0.2, text/*;q=0.3", false},
		{"application/json;q=0", false},
		{"application/json ; Q=0.001", true},
		{"application/json;q=1.000", true},
		{"application/json;q=", false},
		{"application/json;q=9", false},
		{"application/json;q=0.x", false},
		{"application/json;q=0.1234", false},
		{"text/html | application/json", false},
		{"image/png | application/json", true},
		// Feeds: readers that prefer a JSON feed get text like all others.
		{"application/feed+json, application/atom+xml, application/rss+xml", false},
		{"application/rss+xml, application/xml;q=0.8, */*;q=0.1", false},
		{"application/+json", false},
		{"application/jsonp", false},
		{"json", false},
		{",;,", false},
	}
	for _, tt := range tests {
		if got := asksJSON(strings.Split(tt.accept, "|")); got != tt.want {
			t.Errorf("%q: got %v", tt.accept, got)
		}
	}
}

func FuzzAsksJSON(f *testing.F) {
	f.Add("application/json;q=0.5, text/html")
	f.Add(";q=.,/;;q")
	f.Fuzz(func(t *testing.T, accept string) {
		if asksJSON([]string{accept}) && !strings.Contains(strings.ToLower(accept), "json") {
			t.Errorf("%q does not name JSON", accept)
		}
	})
}

func TestAsksJSONAllocations(t *testing.T) {
	accept := []string{"text/html, application/json;q=0.9, */*;q=0.1"}
	if n := testing.AllocsPerRun(100, func() { asksJSON(accept) }); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

package config

import (
	"net/netip"
	"testing"
)

// Whatever text is accepted means what it means to Caddy.
func FuzzTemplate(f *testing.F) {
	for _, text := range []string{
		"", "plain", "{http.request.method}", `a\{b\}c`, `\\{http.request.method}`, "{}", "{{", "}", `{a\}b}`,
		"{http.request.host}:{http.request.uri.path}{http.request.header.A}", "{http.request.remote.host/24}",
	} {
		f.Add(text)
	}
	r := request("http://example.com/a/b", "A", "1")
	f.Fuzz(func(t *testing.T, text string) {
		_, checked := checkPlaceholders(text)
		parsed, err := parseTemplate(text, usual)
		if err != nil {
			if checked == nil {
				t.Fatalf("%q: is refused (%v), but passes the check", text, err)
			}
			return
		}
		got, _ := parsed.appendTo(nil, r, netip.MustParseAddr("192.0.2.7"))
		if want := replacer(r).ReplaceAll(text, ""); string(got) != want && len(want) <= maxValue {
			t.Fatalf("%q: got %q, Caddy says %q", text, got, want)
		}
	})
}

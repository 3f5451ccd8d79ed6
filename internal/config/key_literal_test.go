package config

import (
	"slices"
	"testing"
)

// L71: a key whose braces were forgotten is a text, and all clients one.
func TestLintLiterals(t *testing.T) {
	for _, c := range []struct {
		key  []string
		want []string
	}{
		{[]string{"static"}, nil},
		{[]string{"{http.vars.client_ip}", "login"}, nil},
		{[]string{"{http.request.host}-path"}, nil},
		{[]string{"client_ip"}, []string{`"client_ip" is a text, the same for every request: did you mean {http.vars.client_ip}?`}},
		{[]string{"remote_ip"}, []string{`"remote_ip" is a text, the same for every request: did you mean {http.vars.client_ip}?`}},
		{[]string{"remote_host"}, []string{`"remote_host" is a text, the same for every request: did you mean {http.request.remote.host}?`}},
		{[]string{"$binary_remote_addr"}, []string{`"$binary_remote_addr" is a text, the same for every request: did you mean {http.vars.client_ip}?`}},
		{[]string{"$limit_key"}, []string{`"$limit_key" is a text, the same for every request: placeholders are written in braces`}},
		{[]string{"http.request.remote.host"}, []string{`"http.request.remote.host" is a text, the same for every request: did you mean {http.request.remote.host}?`}},
		{[]string{"header.X-Api-Key"}, []string{`"header.X-Api-Key" is a text, the same for every request: did you mean {http.request.header.X-Api-Key}?`}},
		{[]string{"header", "X-Api-Key"}, []string{`"X-Api-Key" is a text, the same for every request: did you mean {http.request.header.X-Api-Key}?`}},
		{[]string{"header", "{http.request.header.X-Api-Key}"}, nil},
		{[]string{"host", "path"}, []string{
			`"host" is a text, the same for every request: did you mean {http.request.host}?`,
			`"path" is a text, the same for every request: did you mean {http.request.uri.path}?`,
		}},
	} {
		r := newReport()
		compileKey(r, c.key, emptyClientIP, prefixBits{32, 64})
		var got []string
		for _, w := range r.warnings {
			got = append(got, w.message)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.key, got, c.want)
		}
		if err := r.err(); err != nil {
			t.Errorf("%q: %v", c.key, err)
		}
	}
}

package feed

import (
	"strings"
	"testing"
)

// TestKeyName: one feed has one name (A8), however its address is written (T39).
func TestKeyName(t *testing.T) {
	k, err := NewKey([]string{"tag", "page"}, [][]string{{"/feed.xml", "/rss", "/index.rdf/"}})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ host, path, query, want string }{
		{"example.com", "/feed.xml", "", "example.com/feed.xml"},
		{"EXAMPLE.com:8443", "/feed.xml", "", "example.com/feed.xml"},
		{"www.example.com.", "/feed.xml", "", "example.com/feed.xml"},
		{"[2001:db8::1]:80", "/feed.xml", "", "[2001:db8::1]/feed.xml"},
		{"[2001:db8::1]", "/feed.xml", "", "[2001:db8::1]/feed.xml"},
		{"example.com", "//feed.xml", "", "example.com/feed.xml"},
		{"example.com", "/x/../feed.xml", "", "example.com/feed.xml"},
		{"example.com", "/./feed.xml", "", "example.com/feed.xml"},
		{"example.com", "/feed.xml/", "", "example.com/feed.xml"},
		{"example.com", "/rss", "", "example.com/feed.xml"},
		{"example.com", "/rss/", "", "example.com/feed.xml"},
		{"example.com", "/index.rdf", "", "example.com/feed.xml"},
		{"example.com", "/FEED.xml", "", "example.com/FEED.xml"},
		{"example.com", "", "", "example.com/"},
		{"example.com", "/feed.xml", "null", "example.com/feed.xml"},
		{"example.com", "/feed.xml", "utm_source=x&_=17", "example.com/feed.xml"},
		{"example.com", "/feed.xml", "_=1&tag=a%26b&page=2", "example.com/feed.xml?page=2&tag=a%26b"},
		{"example.com", "/feed.xml", "tag=a;b&page=2", "example.com/feed.xml?page=2"},
	}
	for _, tt := range tests {
		if got := string(k.AppendTo([]byte("k:"), tt.host, tt.path, tt.query)); got != "k:"+tt.want {
			t.Errorf("%s %s ?%s: %q, want %q", tt.host, tt.path, tt.query, got, tt.want)
		}
	}
}

// TestKeyExtra: T39, what tells no feeds apart is extra, whatever it is.
func TestKeyExtra(t *testing.T) {
	none, _ := NewKey(nil, nil)
	k, _ := NewKey([]string{"tag", "a b"}, nil)
	for query, want := range map[string][2]bool{
		"": {}, "&": {}, "null": {true, true}, "utm_source=x": {true, true}, "tag": {true, false}, "tag=go&tag=c": {true, false},
		"t%61g=go": {true, false}, "a+b=1&&tag=2": {true, false}, "tag=go&_=17": {true, true}, "%zz=1": {true, true}, "=x": {true, true},
	} {
		if got := [2]bool{none.Extra(query), k.Extra(query)}; got != want {
			t.Errorf("%q: %v, want %v", query, got, want)
		}
	}
}

// TestKeyLong: a long path takes no more room than any other, and differs from its like.
func TestKeyLong(t *testing.T) {
	k, _ := NewKey(nil, nil)
	a := string(k.AppendTo(nil, "a.test", "/"+strings.Repeat("x", 5000)+"a", ""))
	b := string(k.AppendTo(nil, "a.test", "/"+strings.Repeat("x", 5000)+"b", ""))
	if len(a) != maxName || len(b) != maxName || a == b {
		t.Errorf("%d and %d bytes, equal: %v", len(a), len(b), a == b)
	}
}

func TestKeyErrors(t *testing.T) {
	for want, aliases := range map[string][][]string{
		"alias[0]: must have two paths or more":            {{"/a"}},
		"alias[0]: must begin with a slash, got \"b\"":     {{"/a", "b"}},
		"alias[1]: \"/b\" stands for another feed already": {{"/a", "/b"}, {"/c", "/b/"}},
	} {
		if _, err := NewKey(nil, aliases); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", aliases, err, want)
		}
	}
}

package feed

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"time"
)

// TestNotice: it is a feed of one entry in the format that the reader asked for, and says
// when to come again.
func TestNotice(t *testing.T) {
	for kind, want := range map[string]string{
		"":                                    "application/rss+xml; charset=utf-8",
		"text/xml; charset=utf-8":             "application/rss+xml; charset=utf-8",
		"application/rss+xml":                 "application/rss+xml; charset=utf-8",
		"application/atom+xml; charset=utf-8": "application/atom+xml; charset=utf-8",
		"application/feed+json":               "application/feed+json",
		"application/json":                    "application/feed+json",
	} {
		n := Notice{Kind: kind, URL: `https://a.test/feed?<"&'>`, Wait: 5 * time.Hour, Now: noon}
		body, got := n.Write()
		if got != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
		if !strings.Contains(string(body), "2 March 2026, 17:00 UTC") {
			t.Errorf("%s: does not say when\n%s", kind, body)
		}
		if strings.Contains(want, "json") {
			var feed struct{ Items []struct{ URL, Title string } }
			if err := json.Unmarshal(body, &feed); err != nil || len(feed.Items) != 1 || feed.Items[0].URL != n.URL {
				t.Errorf("%s: %v\n%s", kind, err, body)
			}
			continue
		}
		entries := 0
		for d := xml.NewDecoder(strings.NewReader(string(body))); ; {
			token, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v\n%s", kind, err, body)
			}
			if start, ok := token.(xml.StartElement); ok && (start.Name.Local == "item" || start.Name.Local == "entry") {
				entries++
			}
		}
		if entries != 1 {
			t.Errorf("%s: %d entries", kind, entries)
		}
	}
}

package feed

import (
	"testing"
	"time"
)

// TestQuietHours: A17.
func TestQuietHours(t *testing.T) {
	d := newDesk(t)
	d.body = "<rss><channel><skipHours><hour>14</hour></skipHours><item/></channel></rss>"
	d.settle("x")
	d.now = at(2*time.Hour + time.Minute)
	quiet := func(reader string, rules Rules, pairs ...string) time.Duration {
		v := d.book.Enter(d.request(reader, 1, "GET", pairs...), &rules)
		defer d.book.Refused(&v, true)
		if v.Quiet().IsZero() {
			return 0
		}
		return d.book.Wait(&v, 0, d.now, &rules)
	}
	const rest = 59 * time.Minute
	for name, got := range map[string][2]time.Duration{
		"polite":      {quiet("x", Rules{}, "If-None-Match", `"v1"`, "Accept-Encoding", "gzip"), 0},
		"no gzip":     {quiet("x", Rules{}, "If-None-Match", `"v1"`), rest},
		"no tag":      {quiet("x", Rules{}, "Accept-Encoding", "gzip"), rest},
		"made up":     {quiet("x", Rules{}, "If-None-Match", "*", "Accept-Encoding", "gzip"), rest},
		"subscribing": {quiet("new", Rules{}), 0},
		"not heeded":  {quiet("x", Rules{Deaf: true}), 0},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %s, want %s", name, got[0], got[1])
		}
	}
	d.now = at(3 * time.Hour)
	if got := quiet("x", Rules{}); got != 0 {
		t.Errorf("afterwards: %s", got)
	}
}

// TestWait: A15, the longest of what the limit, the last answer and the quiet hours say.
func TestWait(t *testing.T) {
	d := newDesk(t)
	d.body = "<rss><channel><ttl>120</ttl><skipHours><hour>18</hour><hour>19</hour></skipHours><item/></channel></rss>"
	d.visit("x", "GET")
	d.pass(30 * time.Minute)
	tests := []struct {
		name  string
		limit time.Duration
		rules Rules
		want  time.Duration
	}{
		{"the feed is fresh", time.Minute, Rules{}, 90 * time.Minute},
		{"the limit", 3 * time.Hour, Rules{}, 3 * time.Hour},
		{"into quiet hours", 6 * time.Hour, Rules{}, 7*time.Hour + 30*time.Minute},
		{"not heeded", 6 * time.Hour, Rules{Deaf: true}, 6 * time.Hour},
		{"the rules say how long", time.Minute, Rules{MaxAge: time.Hour, Deaf: true}, 30 * time.Minute},
		{"at most", 30 * time.Hour, Rules{MaxWait: 5 * time.Hour}, 5 * time.Hour},
		{"at least", 0, Rules{Deaf: true}, time.Second},
	}
	for _, tt := range tests {
		v := d.book.Enter(d.request("x", 1, "GET"), &tt.rules)
		d.book.Refused(&v, true)
		if got := d.book.Wait(&v, tt.limit, d.now, &tt.rules); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	v := d.book.Enter(d.request("new", 1, "GET"), &d.rules)
	d.book.Refused(&v, true)
	if got := d.book.Wait(&v, time.Minute, d.now, &d.rules); got != time.Minute {
		t.Errorf("for somebody who has nothing: %s", got)
	}
}

// TestInstead: what may be said in place of a refusal (A6, A22).
func TestInstead(t *testing.T) {
	d := newDesk(t)
	d.extra = header("Content-Type", "application/atom+xml")
	d.settle("x")
	refuse := func(reader string, people int, pairs ...string) Visit {
		d.pass(time.Minute)
		v := d.book.Enter(d.request(reader, people, "GET", pairs...), &d.rules)
		d.book.Refused(&v, true)
		return v
	}
	v := refuse("x", 1, "If-None-Match", `"zzz", W/"v1-gzip"`)
	if m, ok := d.book.Unchanged(&v); !ok || m.Tag != `W/"v1-gzip"` || m.Date != monday {
		t.Errorf("unchanged by tag: %+v %v", m, ok)
	}
	v = refuse("x", 1, "If-Modified-Since", monday)
	if m, ok := d.book.Unchanged(&v); !ok || m.Tag != `"v1"` || m.Date != monday {
		t.Errorf("unchanged by date: %+v %v", m, ok)
	}
	v = refuse("x", 1)
	if _, ok := d.book.Unchanged(&v); ok {
		t.Error("unchanged for a request that did not ask")
	}
	if m, ok := d.book.Received(&v); !ok || m.Tag != `"v1"` {
		t.Errorf("received: %+v %v", m, ok)
	}
	v = refuse("x", 2)
	if _, ok := d.book.Received(&v); ok {
		t.Error("received by one of two")
	}
	v = refuse("stranger", 1)
	if _, ok := d.book.Received(&v); ok {
		t.Error("received by somebody who never was here")
	}
	for name, a := range map[string]Answer{
		"another coding, and no date":          {Status: 200, Header: header("Etag", `"b"`)},
		"a 304 with a tag that nobody has had": {Status: 304, Header: header("Etag", `"b"`)},
	} {
		d := newDesk(t)
		d.date, d.extra = "", header("Content-Encoding", "gzip")
		d.settle("x")
		before := d.book.Enter(d.request("x", 1, "GET"), &d.rules)
		if _, ok := d.book.Received(&before); !ok {
			t.Errorf("before %s: not received", name)
		}
		v := d.book.Enter(d.request("y", 1, "GET", "If-None-Match", `"b"`), &d.rules)
		a.Now = d.now
		d.book.Served(&v, &a, &d.rules)
		v = d.book.Enter(d.request("x", 1, "GET"), &d.rules)
		if _, ok := d.book.Received(&v); ok {
			t.Errorf("%s: received what may be new", name)
		}
	}
	d.publish(`"v2"`)
	d.visit("somebody", "GET")
	v = refuse("x", 1)
	if _, ok := d.book.Received(&v); ok {
		t.Error("received what it has not yet")
	}
	v = refuse("x", 1, "If-None-Match", `"v1"`)
	if _, ok := d.book.Unchanged(&v); ok {
		t.Error("unchanged, and it has changed")
	}
	kind, ok := d.book.Notify(&v, 3, d.now)
	if !ok || kind != "application/atom+xml" {
		t.Errorf("notice: %q %v", kind, ok)
	}
	if _, ok := d.book.Notify(&v, 3, d.now.Add(23*time.Hour)); ok {
		t.Error("two notices in a day")
	}
	if _, ok := d.book.Notify(&v, 3, d.now.Add(24*time.Hour)); !ok {
		t.Error("no notice the next day")
	}
	v = refuse("patient", 1)
	if _, ok := d.book.Notify(&v, 3, d.now); ok {
		t.Error("a notice after one refusal")
	}
}

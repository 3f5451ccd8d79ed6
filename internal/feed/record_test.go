package feed

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// TestJoining: T04 and T07, three whole feeds are free while a reader subscribes, the fourth is
// not; what was refused or not received does not count.
func TestJoining(t *testing.T) {
	d := newDesk(t)
	for range 3 {
		d.want(Unconditional, 0, 0, "new", "GET")
		d.pass(3 * time.Second)
	}
	d.want(Unconditional, Full, Full, "new", "GET")
	for range 2 {
		v := d.book.Enter(d.request("refused", 1, "GET"), &d.rules)
		d.book.Refused(&v, true)
	}
	for range 3 {
		d.want(Unconditional, 0, 0, "refused", "GET")
		d.pass(3 * time.Second)
	}
	d.want(Unconditional, Full, Full, "refused", "GET")
}

// TestAgain: T06, the same request three or four times in a second is one.
func TestAgain(t *testing.T) {
	d := newDesk(t)
	d.settle("x")
	for range 2 {
		d.want(Conditional, Full, Full, "x", "GET", "If-None-Match", `"v1"`)
		for range 3 {
			d.pass(300 * time.Millisecond)
			d.want(Conditional, 0, 0, "x", "GET", "If-None-Match", `"v1"`)
		}
		d.want(Conditional, Full, Full, "x", "GET", "If-None-Match", `"v1"`)
		d.want(Conditional, Full, Full, "x", "GET", "If-None-Match", `"v1"`, "User-Agent", "another")
		d.pass(time.Minute)
	}
	v := d.book.Enter(d.request("x", 1, "GET", "If-None-Match", `"v1"`), &d.rules)
	d.book.Refused(&v, true)
	d.want(Conditional, Full, Full, "x", "GET", "If-None-Match", `"v1"`)
}

// TestAgainGivenBack: what is given back of one request is not taken of the one that came since.
func TestAgainGivenBack(t *testing.T) {
	d := newDesk(t)
	d.settle("x")
	enter := func(tag string) *Visit {
		v := d.book.Enter(d.request("x", 1, "GET", "If-None-Match", tag), &d.rules)
		return &v
	}
	enter(`"v1"`)
	again := enter(`"v1"`)
	enter(`"v0"`)
	d.book.Refused(again, false)
	for i := range 4 {
		if cost := enter(`"v0"`).Cost(); (cost == 0) != (i < sameMost) {
			t.Errorf("the same again, for the %d. time: %d", i+1, cost)
		}
	}
}

// TestAgainGivenBackLate: nor does it give back to another one that has been repeated since.
func TestAgainGivenBackLate(t *testing.T) {
	d := newDesk(t)
	d.settle("x")
	enter := func(tag string) *Visit {
		v := d.book.Enter(d.request("x", 1, "GET", "If-None-Match", tag), &d.rules)
		return &v
	}
	enter(`"v1"`)
	again := enter(`"v1"`)
	for range 1 + sameMost {
		enter(`"v0"`)
	}
	d.book.Refused(again, false)
	if got := again.record.sames; got != sameMost {
		t.Errorf("the other one was repeated %d times, and now %d", sameMost, got)
	}
}

// TestAgainRefused: behind a request that is still being decided about others pass, but not once
// such a one was refused: many at once would get the feed from any store that takes its time.
func TestAgainRefused(t *testing.T) {
	d := newDesk(t)
	d.settle("x")
	enter := func(want int64) *Visit {
		t.Helper()
		v := d.book.Enter(d.request("x", 1, "GET"), &d.rules)
		if v.Cost() != want {
			t.Errorf("costs %d, want %d", v.Cost(), want)
		}
		return &v
	}
	first := enter(Full)
	for range 3 {
		enter(0)
	}
	d.book.Refused(first, true)
	for range 5 {
		defer d.book.Refused(enter(Full), true)
	}
}

// TestHead: A18, HEAD then GET within ten seconds cost as much as one of them.
func TestHead(t *testing.T) {
	d := newDesk(t)
	d.settle("x")
	d.want(Unconditional, Slight, Slight, "x", "HEAD")
	d.pass(time.Second)
	d.want(Unconditional, Full-Slight, Full-Slight, "x", "GET")
	d.pass(3 * time.Second)
	d.want(Unconditional, Full, Full, "x", "GET")
	d.pass(time.Minute)
	d.want(Unconditional, Slight, Slight, "x", "HEAD")
	d.pass(11 * time.Second)
	d.want(Unconditional, Full, Full, "x", "GET")
	d.pass(time.Minute)
	d.want(Conditional, Full, Full, "x", "HEAD", "If-None-Match", `"v1"`)
	d.want(Conditional, 0, 0, "x", "GET", "If-None-Match", `"v1"`)
}

// TestDevices: three readers at home all get what is new, however far the budgets are spent. A fourth,
// or one that keeps its tag for ever, pays for whole feeds.
func TestDevices(t *testing.T) {
	d := newDesk(t)
	d.settle("home")
	for _, version := range []string{`"v2"`, `"v3"`} {
		old := d.etag
		d.publish(version)
		d.visit("somebody", "GET")
		for range 3 {
			d.want(Conditional, 0, 0, "home", "GET", "If-None-Match", old)
			d.pass(time.Minute)
			d.want(Conditional, Full, Full, "home", "GET", "If-None-Match", version)
			d.pass(time.Minute)
		}
		for range 2 {
			d.want(Unconditional, Full, Full, "home", "GET", "If-None-Match", old)
			d.pass(time.Hour)
		}
	}
}

// TestNews: A5 and A13, each version is free once, or as often as there are people.
func TestNews(t *testing.T) {
	d := newDesk(t)
	d.settle("x")
	d.want(Unconditional, Full, Full, "x", "GET")
	d.pass(time.Minute)
	d.publish(`"v2"`)
	d.visit("somebody", "GET")
	d.want(Unconditional, 0, 0, "x", "GET")
	d.pass(time.Minute)
	d.want(Unconditional, Full, Full, "x", "GET")
	d.pass(time.Minute)
	// T27: two in one office, one agent.
	d.publish(`"v3"`)
	d.visit("somebody", "GET")
	for _, want := range []int64{0, 0, Full} {
		q := d.request("x", 2, "GET")
		v := d.book.Enter(q, &d.rules)
		if v.Cost() != want {
			t.Errorf("cost %d, want %d", v.Cost(), want)
		}
		d.answer(&v, q)
		d.pass(time.Minute)
	}
	// Many at once are no way around.
	d.publish(`"v4"`)
	d.visit("somebody", "GET")
	free := 0
	for range 10 {
		v := d.book.Enter(d.request("x", 2, "GET"), &d.rules)
		if v.Cost() == 0 {
			free++
		}
		d.pass(3 * time.Second)
	}
	if free != 2 {
		t.Errorf("%d free, want 2", free)
	}
}

// TestNewsFound: whoever is the first to find a new version pays nothing either.
func TestNewsFound(t *testing.T) {
	d := newDesk(t)
	d.settle("x")
	d.publish(`"v2"`)
	d.want(Unconditional, Full, 0, "x", "GET")
	d.pass(time.Minute)
	d.want(Unconditional, Full, Full, "x", "GET")
}

// TestNewsMadeUp: a 304 to what was made up is no whole feed, and still the only one for nothing.
func TestNewsMadeUp(t *testing.T) {
	d := newDesk(t)
	d.settle("x")
	d.publish(`"v2"`)
	d.visit("somebody", "GET")
	d.want(Unconditional, 0, 0, "x", "GET", "If-None-Match", "*")
	d.pass(time.Minute)
	d.want(Unconditional, Full, Slight, "x", "GET", "If-None-Match", "*")
}

// TestNewsLost: what was not received to its end is still new.
func TestNewsLost(t *testing.T) {
	d := newDesk(t)
	d.settle("x")
	d.publish(`"v2"`)
	d.visit("somebody", "GET")
	for _, a := range []Answer{{Status: 200, Bytes: 5}, {Status: 503}, {Status: 404}} {
		v := d.book.Enter(d.request("x", 1, "GET"), &d.rules)
		if v.Cost() != 0 {
			t.Errorf("before %+v: cost %d, want 0", a, v.Cost())
		}
		a.Now, a.Header = d.now, header("Etag", `"v2"`, "Last-Modified", d.date)
		d.book.Served(&v, &a, &d.rules)
		d.pass(time.Minute)
	}
	d.want(Unconditional, 0, 0, "x", "GET")
	d.pass(time.Minute)
	d.want(Unconditional, Full, Full, "x", "GET")
}

// TestPieces: what comes in parts, or not to its end, is not for nothing for ever. All of a feed is
// one part as well.
func TestPieces(t *testing.T) {
	for name, part := range map[string]Answer{"a range": {Status: 206, Bytes: 47}, "broken off": {Status: 200, Bytes: 46}} {
		d := newDesk(t)
		d.settle("x")
		ask := func(want int64, answers ...Answer) {
			t.Helper()
			v := d.book.Enter(d.request("x", 1, "GET"), &d.rules)
			if v.Cost() != want {
				t.Errorf("%s: cost %d, want %d", name, v.Cost(), want)
			}
			for _, a := range answers {
				a.Now, a.Header = d.now, header("Etag", d.etag, "Last-Modified", d.date)
				d.book.Served(&v, &a, &d.rules)
			}
			d.pass(time.Minute)
		}
		for _, version := range []string{`"v2"`, `"v3"`} {
			d.publish(version)
			d.visit("somebody", "GET")
			for range mostPieces + 1 {
				ask(0, Answer{Status: 503, Bytes: 10}) // the site's fault
				ask(0, part)
			}
			ask(Full, part)
		}
	}
	// Nor while a reader subscribes.
	d := newDesk(t)
	d.settle("somebody")
	free := 0
	for i := range 20 {
		v := d.book.Enter(d.request("new", 1, "GET", "Range", fmt.Sprintf("bytes=%d-", i)), &d.rules)
		if v.Cost() == 0 {
			free++
		}
		d.book.Served(&v, &Answer{Status: 206, Bytes: 47, Now: d.now, Header: header("Etag", d.etag)}, &d.rules)
		d.pass(300 * time.Millisecond)
	}
	if want := graceFulls + mostPieces + 1 + mostPieces; free != want { // and the version, which is news
		t.Errorf("%d parts for nothing, want %d", free, want)
	}
}

// TestVolatile: a site that gives each answer a validator of its own has something new for
// everybody each time, which is free to each, in the long run, no more often than a polite reader asks.
func TestVolatile(t *testing.T) {
	for name, test := range map[string]struct {
		fields []string
		most   int
	}{
		"without":         {nil, newsBurst + 7},
		"with an old one": {[]string{"If-None-Match", `"n1"`}, devices * (newsBurst + 7)},
	} {
		d := newDesk(t)
		d.etag = `"n1"`
		d.settle("x")
		d.pass(24 * time.Hour)
		free := 0
		for i := range 6 * 60 { // six hours, once a minute
			d.publish(fmt.Sprintf(`"n%d"`, i+2))
			v := d.book.Enter(d.request("x", 1, "GET", test.fields...), &d.rules)
			if d.book.Served(&v, &Answer{Status: 200, Bytes: 47, Complete: true, Now: d.now, Header: header("Etag", d.etag)}, &d.rules) == 0 {
				free++
			}
			d.pass(time.Minute)
		}
		if free < newsBurst || free > test.most {
			t.Errorf("%s: %d of 360 were free, want at most %d", name, free, test.most)
		}
	}
}

// TestRefetch: A20 and T12, a reader that is polite otherwise may leave its validators out.
func TestRefetch(t *testing.T) {
	d := newDesk(t)
	d.settle("polite")
	for range 5 {
		for range 11 {
			d.pass(time.Hour)
			d.want(Conditional, Full, Full, "polite", "GET", "If-Modified-Since", monday)
		}
		d.pass(time.Hour)
		d.want(Unconditional, 0, 0, "polite", "GET")
		d.pass(time.Hour)
		d.want(Unconditional, Full, Full, "polite", "GET")
	}
	d.settle("rude")
	d.pass(13 * time.Hour)
	d.want(Unconditional, Full, Full, "rude", "GET")
}

// TestBlunt: validators that spare nothing are none, until they do again.
func TestBlunt(t *testing.T) {
	d := newDesk(t)
	d.settle("x")
	q := d.request("x", 1, "GET", "If-None-Match", `"v1-gzip"`)
	v := d.book.Enter(q, &d.rules)
	whole := Answer{Status: 200, Complete: true, Bytes: 50, Now: d.now, Header: header("Etag", d.etag, "Last-Modified", d.date)}
	d.book.Served(&v, &whole, &d.rules)
	d.pass(time.Hour)
	d.want(Unconditional, Full, Slight, "x", "GET", "If-None-Match", `"v1-gzip"`)
	d.pass(time.Hour)
	d.want(Conditional, Full, Full, "x", "GET", "If-None-Match", `"v1"`)
}

// TestBare: readers of a feed without validators have none to send.
func TestBare(t *testing.T) {
	d := newDesk(t)
	d.etag, d.date = "", ""
	d.settle("x")
	d.want(Conditional, Full, Full, "x", "GET")
	d.pass(time.Hour)
	d.want(Conditional, Full, Full, "x", "GET", "If-None-Match", "*")
	d.pass(time.Hour)
	d.publish(`"v1"`)
	d.visit("somebody", "GET")
	d.want(Unconditional, 0, 0, "x", "GET")
	d.pass(time.Hour)
	d.want(Unconditional, Full, Full, "x", "GET")
}

func TestAnnounce(t *testing.T) {
	d := newDesk(t)
	d.rules.Announce = time.Hour
	d.settle("x")
	d.want(Unconditional, 0, 0, "x", "GET")
	d.pass(59*time.Minute - time.Second)
	d.want(Unconditional, 0, 0, "x", "GET")
	d.pass(time.Minute)
	d.want(Unconditional, Full, Full, "x", "GET")
}

// TestNewsAfterCopy: who was given an older copy in between still has the new version for nothing.
func TestNewsAfterCopy(t *testing.T) {
	d := newDesk(t)
	d.settle("x")
	d.pass(time.Hour)
	d.publish(`"v2"`)
	d.visit("somebody", "GET")
	date := d.date
	d.pass(time.Hour)
	d.etag, d.date, d.extra = `"v1"`, monday, http.Header{"Age": {"5400"}} // the site is down
	d.visit("x", "GET")
	d.pass(time.Hour)
	d.etag, d.date, d.extra = `"v2"`, date, nil
	d.want(Conditional, 0, 0, "x", "GET", "If-None-Match", `"v1"`)
}

// TestOlderCopyTeachesNothing: an older answer says nothing of what the feed is now, nor is it a version to be found.
func TestOlderCopyTeachesNothing(t *testing.T) {
	d := newDesk(t)
	d.extra = http.Header{"Content-Type": {"application/rss+xml"}}
	d.settle("x")
	d.pass(time.Hour)
	d.publish(`"v2"`)
	d.visit("x", "GET")
	d.pass(24 * time.Hour)
	q := d.request("x", 1, "GET")
	v := d.book.Enter(q, &d.rules)
	d.etag, d.date, d.extra = `"v0"`, "Sun, 01 Feb 2026 08:00:00 GMT", http.Header{"Age": {"172800"}, "Content-Type": {"text/html"}}
	if price := d.answer(&v, q); price != v.Cost() || price == 0 {
		t.Errorf("an older answer costs %d, want %d", price, v.Cost())
	}
	if f := d.book.feeds.get(v.feed); f.kind != "application/rss+xml" || f.hinted > f.current() {
		t.Errorf("the feed is %s now, with hints of version %d where %d is current", f.kind, f.hinted, f.current())
	}
}

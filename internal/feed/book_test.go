package feed

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// A desk is a book with one feed behind it, which answers as Caddy's file server does.
type desk struct {
	*testing.T
	book  *Book
	rules Rules
	now   time.Time
	etag  string
	date  string
	body  string
	extra http.Header // of each answer
}

func newDesk(t *testing.T) *desk {
	return &desk{T: t, book: NewBook(), now: noon, etag: `"v1"`, date: monday, body: "<rss><channel><title>t</title></channel></rss>"}
}

// publish changes the feed.
func (d *desk) publish(etag string) {
	d.etag, d.date = etag, d.now.Format(http.TimeFormat)
}

func (d *desk) pass(span time.Duration) { d.now = d.now.Add(span) }

func (d *desk) request(reader string, people int, method string, pairs ...string) *Request {
	r := httptest.NewRequest(method, "/feed.xml", nil)
	r.Header = header(pairs...)
	return &Request{Feed: []byte("a.test/feed.xml"), Reader: Reader{Key: reader, People: people}, HTTP: r, Now: d.now}
}

// visit has a request let pass and answered, and returns its class, what it was charged at
// entry and in the end.
func (d *desk) visit(reader, method string, pairs ...string) (class Class, cost, price int64) {
	d.Helper()
	q := d.request(reader, 1, method, pairs...)
	v := d.book.Enter(q, &d.rules)
	return v.Class(), v.Cost(), d.answer(&v, q)
}

// answer answers a visit.
func (d *desk) answer(v *Visit, q *Request) int64 {
	a := Answer{Status: 200, Complete: true, Bytes: int64(len(d.body)), Now: d.now, Header: http.Header{"Etag": {d.etag}, "Last-Modified": {d.date}}}
	for name, values := range d.extra {
		a.Header[name] = values
	}
	f := new(state)
	f.learn(200, a.Header, d.now)
	switch p, _ := f.judge(q.HTTP.Header, d.now); {
	case p == currentProof, q.HTTP.Header.Get("If-None-Match") == "*":
		a.Status, a.Bytes = 304, 0
		delete(a.Header, "Last-Modified")
	case q.HTTP.Method == http.MethodHead:
		a.Bytes = 0
	case d.book.Wants(v, a.Header, d.now):
		a.Head = []byte(d.body)
	}
	return d.book.Served(v, &a, &d.rules)
}

// want wants what visit returns.
func (d *desk) want(class Class, cost, price int64, reader, method string, pairs ...string) {
	d.Helper()
	gotClass, gotCost, gotPrice := d.visit(reader, method, pairs...)
	if gotClass != class || gotCost != cost || gotPrice != price {
		d.Errorf("%s %s %v: %s, %d, then %d; want %s, %d, then %d", reader, method, pairs, gotClass, gotCost, gotPrice, class, cost, price)
	}
}

// settle lets a reader come to know the feed, and time pass until none of that matters.
func (d *desk) settle(reader string) {
	d.visit(reader, "GET")
	d.pass(time.Minute)
}

func TestPolls(t *testing.T) {
	d := newDesk(t)
	d.want(Unconditional, 0, 0, "polite", "GET")
	d.pass(time.Hour)
	d.want(Conditional, Full, Full, "polite", "GET", "If-None-Match", `"v1"`)
	d.pass(time.Hour)
	d.want(Conditional, Full, Full, "polite", "GET", "If-Modified-Since", monday)
	d.publish(`"v2"`)
	d.visit("somebody", "GET")
	d.pass(time.Hour)
	d.want(Conditional, 0, 0, "polite", "GET", "If-None-Match", `"v1"`) // A5
	d.pass(time.Hour)
	d.want(Conditional, Full, Full, "polite", "GET", "If-None-Match", `"v2-gzip"`)
	d.pass(time.Hour)
	for range devices - 1 {
		d.want(Conditional, 0, 0, "polite", "GET", "If-None-Match", `"v1"`) // another device
		d.pass(time.Hour)
	}
	d.want(Unconditional, Full, Full, "polite", "GET", "If-None-Match", `"v1"`) // it has v2 already
	d.want(Unconditional, Full, Full, "polite", "POST")
}

// TestPrices: what answers are worth (A3, A4).
func TestPrices(t *testing.T) {
	d := newDesk(t)
	d.settle("x")
	q := func(method string) *Visit {
		d.pass(time.Minute)
		v := d.book.Enter(d.request("x", 1, method), &d.rules)
		return &v
	}
	size := int64(len(d.body))
	tests := []struct {
		name, method string
		rules        Rules
		answer       Answer
		want         int64
	}{
		{"whole", "GET", Rules{}, Answer{Status: 200, Bytes: size, Complete: true}, Full},
		{"the client left", "GET", Rules{}, Answer{Status: 200, Bytes: size / 2}, Full / 2},
		{"a range", "GET", Rules{}, Answer{Status: 206, Bytes: 1}, Slight},
		{"too wide a range", "GET", Rules{}, Answer{Status: 206, Bytes: 3 * size}, Full},
		{"304 to what was made up", "GET", Rules{}, Answer{Status: 304}, Slight},
		{"HEAD", "HEAD", Rules{}, Answer{Status: 200}, Slight},
		{"not found", "GET", Rules{}, Answer{Status: 404}, Full},
		{"redirected", "GET", Rules{}, Answer{Status: 308}, Full},
		{"failed", "GET", Rules{}, Answer{Status: 503}, 0},
		{"failed HEAD", "HEAD", Rules{}, Answer{Status: 502}, 0},
		{"nobody knows", "GET", Rules{}, Answer{}, Full},
		{"twice the size", "GET", Rules{Bytes: true}, Answer{Status: 200, Bytes: 2 * size, Complete: true}, 2 * Full},
		{"a hundred times the size", "GET", Rules{Bytes: true}, Answer{Status: 200, Bytes: 100 * size, Complete: true}, mostWorth},
		{"packed", "GET", Rules{Bytes: true}, Answer{Status: 200, Bytes: size / 20, Complete: true}, Slight},
	}
	for _, tt := range tests {
		v := q(tt.method)
		tt.answer.Header, tt.answer.Now = http.Header{}, d.now
		if got := d.book.Served(v, &tt.answer, &tt.rules); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestHintsOfVersions: a feed is looked at once a version, and what it says counts from then.
func TestHintsOfVersions(t *testing.T) {
	d := newDesk(t)
	d.body = "<rss><channel><ttl>120</ttl><item/></channel></rss>"
	d.settle("x")
	v := d.book.Enter(d.request("x", 1, "GET"), &d.rules)
	if age := d.book.MaxAge(&v, &d.rules); age != 2*time.Hour {
		t.Errorf("fresh for %s", age)
	}
	if d.book.Wants(&v, header("Etag", d.etag, "Last-Modified", d.date), d.now) {
		t.Error("a version is looked at twice")
	}
	if d.book.Wants(&v, header("Etag", `"v2"`, "Last-Modified", tuesday, "Content-Encoding", "zstd"), d.now) {
		t.Error("what cannot be read is looked at")
	}
	d.publish(`"v2"`)
	d.body = "<rss><channel><item/></channel></rss>"
	d.visit("somebody", "GET")
	if age := d.book.MaxAge(&v, &d.rules); age != 0 {
		t.Errorf("fresh for %s", age)
	}
}

// TestBookBounded: however many there are, memory is not.
func TestBookBounded(t *testing.T) {
	d := newDesk(t)
	d.book.readers = newGenerations[record](100)
	d.book.feeds = newGenerations[state](10)
	d.visit("kept", "GET")
	for i := range 1000 {
		q := d.request(fmt.Sprint("reader ", i), 1, "GET")
		q.Feed = fmt.Append(nil, "a.test/", i)
		v := d.book.Enter(q, &d.rules)
		d.answer(&v, q)
		if i%20 == 0 {
			d.pass(time.Hour)
			if _, cost, _ := d.visit("kept", "GET"); cost == 0 && i > 0 {
				t.Fatalf("a reader that comes all the time was forgotten after %d", i)
			}
		}
	}
	if n := d.book.readers.len(); n > 100 {
		t.Errorf("%d readers", n)
	}
	if n := d.book.feeds.len(); n > 10 {
		t.Errorf("%d feeds", n)
	}
}

// TestBookAtOnce is for the race detector: many readers of few feeds.
func TestBookAtOnce(t *testing.T) {
	book := NewBook()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 200 {
				d := &desk{T: t, book: book, now: at(time.Duration(n) * time.Minute), etag: fmt.Sprintf(`"v%d"`, n/20), date: monday, body: "<rss/>"}
				q := d.request(fmt.Sprint(n%5), 1, "GET", "If-None-Match", fmt.Sprintf(`"v%d"`, n/30))
				v := book.Enter(q, &d.rules)
				if i%3 == 0 {
					book.Wait(&v, time.Second, d.now, &d.rules)
					book.Unchanged(&v)
					book.Received(&v)
					book.Notify(&v, 1, d.now)
					book.Refused(&v, true)
					continue
				}
				d.answer(&v, q)
			}
		})
	}
	all.Wait()
}

// TestEnterAllocations: a poll costs no memory.
func TestEnterAllocations(t *testing.T) {
	d := newDesk(t)
	d.settle("x")
	q := d.request("x", 1, "GET", "If-None-Match", `"zzz", W/"v1-gzip"`, "Accept-Encoding", "gzip")
	k, _ := NewKey(nil, nil)
	a := Answer{Status: 304, Now: d.now, Header: header("Etag", `"v1"`)}
	room := make([]byte, 0, 64)
	n := testing.AllocsPerRun(100, func() {
		q.Feed = k.AppendTo(room, "A.test", "/feed.xml", "x=1")
		q.Now = q.Now.Add(time.Minute)
		v := d.book.Enter(q, &d.rules)
		d.book.MaxAge(&v, &d.rules)
		d.book.Served(&v, &a, &d.rules)
	})
	if n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
	if !bytes.HasPrefix(q.Feed, []byte("a.test/")) {
		t.Error("another feed")
	}
}

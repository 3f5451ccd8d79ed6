package feed

import (
	"testing"
	"time"
)

// refuse has a request refused, and its reader told to wait, 0 for nothing. It returns how many
// times as far apart the reader's whole fetches are to be.
func (d *desk) refuse(reader string, people int, wait time.Duration, pairs ...string) int {
	d.Helper()
	v := d.book.Enter(d.request(reader, people, "GET", pairs...), &d.rules)
	slower := v.Slower()
	d.book.Refused(&v, true)
	d.book.Told(&v, 429, wait, d.now, &d.rules)
	return slower
}

// conduct returns what is told of a reader.
func (d *desk) conduct(reader string) Conduct {
	d.Helper()
	all := d.book.Conducts(&d.rules, func(c *Conduct) bool { return c.Key == reader })
	if len(all) != 1 {
		d.Fatalf("%d readers are called %q", len(all), reader)
	}
	return all[0]
}

func named(d *desk) *desk {
	d.rules.Name = func(dst []byte, key string) []byte { return append(dst, key...) }
	d.rules.Often = time.Hour
	return d
}

// TestEscalate: T18, each request that comes too early makes whole fetches twice as rare, up to
// the most that there may be; with each day without one half of it is forgotten.
func TestEscalate(t *testing.T) {
	d := named(newDesk(t))
	d.rules.Escalate = 8
	d.settle("bot")
	for i, want := range []int{1, 2, 4, 8, 8, 8} {
		if got := d.refuse("bot", 1, 20*time.Hour); got != want {
			t.Errorf("request %d: %d times as far apart, want %d", i, got, want)
		}
		d.pass(time.Minute)
	}
	if c := d.conduct("bot"); c.Early != 5 || c.Slower != 8 || c.Refused != 6 {
		t.Errorf("%+v", c)
	}
	// It was served: what comes next is not early, and the past is not forgotten.
	d.pass(20 * time.Hour)
	d.want(Unconditional, Full, Full, "bot", "GET")
	d.pass(time.Minute)
	if got := d.refuse("bot", 1, time.Hour); got != 8 {
		t.Errorf("after it was served: %d", got)
	}
	d.pass(24 * time.Hour)
	for _, want := range []int{2, 1, 1} { // of 2^3 half the power is left, then none
		if got := d.refuse("bot", 1, time.Hour); got != want {
			t.Errorf("%s: %d times as far apart, want %d", d.now, got, want)
		}
		d.pass(24 * time.Hour)
	}
}

// TestForgiven: who waits for the longest that it can be told is forgiven, but not who was told to
// wait for what was left of that.
func TestForgiven(t *testing.T) {
	d := named(newDesk(t))
	d.rules.Escalate, d.rules.MaxWait = 8, 20*time.Hour
	d.settle("x")
	for range 5 {
		d.refuse("x", 1, 20*time.Hour)
		d.pass(time.Minute)
	}
	d.refuse("x", 1, 5*time.Minute)
	d.pass(10 * time.Minute)
	if got := d.refuse("x", 1, 20*time.Hour); got != 8 {
		t.Errorf("waited for ten minutes: %d times as far apart", got)
	}
	d.pass(18 * time.Hour)
	if got := d.refuse("x", 1, 20*time.Hour); got != 1 {
		t.Errorf("waited: %d times as far apart", got)
	}
	d.pass(time.Minute)
	if got := d.refuse("x", 1, 20*time.Hour); got != 2 {
		t.Errorf("early again: %d times as far apart", got)
	}
}

// TestEarly: a tenth of the wait may be missing.
func TestEarly(t *testing.T) {
	d := named(newDesk(t))
	d.rules.Escalate = 8
	d.settle("x")
	d.refuse("x", 1, 10*time.Hour)
	d.pass(9*time.Hour + time.Second)
	if got := d.refuse("x", 1, 10*time.Hour); got != 1 || d.conduct("x").Early != 0 {
		t.Errorf("%d, %d early", got, d.conduct("x").Early)
	}
	d.pass(9*time.Hour - time.Second)
	if got := d.refuse("x", 1, 10*time.Hour); got != 2 || d.conduct("x").Early != 1 {
		t.Errorf("%d, %d early", got, d.conduct("x").Early)
	}
	// Served all the same, since an operator gave it something back: nothing is left to wait for.
	d.pass(time.Hour)
	d.want(Unconditional, Full, Full, "x", "GET")
	d.pass(time.Hour)
	d.want(Unconditional, Full, Full, "x", "GET")
	if got := d.conduct("x").Early; got != 2 {
		t.Errorf("%d early", got)
	}
}

// TestEscalateOnlyWhoDoesNotWait: what is free, what is of the other class, who was told nothing,
// another agent with the same key, and readers who share one are not held to a wait.
func TestEscalateOnlyWhoDoesNotWait(t *testing.T) {
	d := named(newDesk(t))
	d.rules.Escalate = 8
	polls := func(reader string) {
		t.Helper()
		d.pass(time.Minute)
		d.want(Conditional, Full, Full, reader, "GET", "If-None-Match", d.etag)
	}
	early := func(reader string, want int64) {
		t.Helper()
		if c := d.conduct(reader); c.Early != want || want == 0 && c.Slower != 1 {
			t.Errorf("%s: %d early, want %d; %d times as far apart", reader, c.Early, want, c.Slower)
		}
	}
	for _, reader := range []string{"polls", "news", "untold", "agents", "office", "again"} {
		d.settle(reader)
	}
	d.refuse("polls", 1, time.Hour)
	polls("polls")
	polls("polls")
	early("polls", 0)

	d.refuse("untold", 1, 0)
	d.pass(time.Minute)
	d.refuse("untold", 1, 0)
	early("untold", 0)

	for range 4 { // each is told, neither comes back before the other
		d.refuse("agents", 1, time.Hour, "User-Agent", "a")
		d.pass(time.Minute)
		d.refuse("agents", 1, time.Hour, "User-Agent", "b")
		d.pass(time.Minute)
	}
	early("agents", 0)
	for range 4 {
		d.refuse("agents", 1, time.Hour, "User-Agent", "a")
		d.pass(time.Minute)
	}
	d.refuse("agents", 1, time.Hour, "User-Agent", "b")
	d.pass(time.Minute)
	if got := d.refuse("agents", 1, time.Hour, "User-Agent", "b"); got != 2 {
		t.Errorf("agents: %d times as far apart for what another did", got)
	}

	d.visit("office", "GET") // each of two has the version then
	for range 4 {
		if got := d.refuse("office", 2, time.Hour); got != 1 {
			t.Errorf("office: %d times as far apart", got)
		}
		d.pass(time.Minute)
	}
	early("office", 3)
	if c := d.conduct("office"); c.Slower != 1 {
		t.Errorf("office: %d times as far apart", c.Slower)
	}

	d.rules.Escalate = 0 // the default
	for range 4 {
		if got := d.refuse("again", 1, time.Hour); got != 1 {
			t.Errorf("by default: %d times as far apart", got)
		}
		d.pass(time.Minute)
	}
	early("again", 3)

	d.rules.Escalate = 8
	d.refuse("news", 1, time.Hour)
	d.publish(`"v2"`)
	d.visit("somebody", "GET")
	d.pass(time.Minute)
	d.want(Unconditional, 0, 0, "news", "GET")
	early("news", 0)
}

// TestPenalisedPolls: a reader that is penalised still polls as before, and has each new version.
func TestPenalisedPolls(t *testing.T) {
	d := named(newDesk(t))
	d.rules.Escalate = 100
	d.settle("x")
	for range 20 {
		d.refuse("x", 1, time.Hour)
		d.pass(time.Minute)
	}
	if got := d.conduct("x").Slower; got != 100 {
		t.Fatalf("%d times as far apart", got)
	}
	v := d.book.Enter(d.request("x", 1, "GET", "If-None-Match", `"v1"`), &d.rules)
	if v.Class() != Conditional || v.Slower() != 1 || v.Cost() != Full {
		t.Errorf("a poll: %s, %d times, costs %d", v.Class(), v.Slower(), v.Cost())
	}
	d.publish(`"v2"`)
	d.visit("somebody", "GET")
	d.pass(time.Minute)
	d.want(Unconditional, 0, 0, "x", "GET")
}

// TestConduct: what is told of a reader is what it did.
func TestConduct(t *testing.T) {
	d := named(newDesk(t))
	began := d.now
	d.visit("x", "GET", "Accept-Encoding", "gzip", "User-Agent", "Notes \xff 1.0 with a name that is longer than what is kept of it")
	for range 8 {
		d.pass(time.Hour)
		for range 3 { // the same again: no gaps
			d.visit("x", "GET", "If-None-Match", `"v1"`, "Accept-Encoding", "br", "Cookie", "a=b")
			d.pass(100 * time.Millisecond)
		}
	}
	d.visit("x", "GET", "If-None-Match", `"mine"`)
	d.visit("x", "HEAD", "If-None-Match", `"mine"`)
	q := d.request("x", 1, "GET", "Accept-Encoding", "zstd")
	q.Extra = true
	v := d.book.Enter(q, &d.rules)
	d.book.Refused(&v, true)
	d.book.Told(&v, 429, time.Hour, d.now, &d.rules)
	v = d.book.Enter(d.request("x", 1, "GET", "If-None-Match", `"v1"`), &d.rules)
	d.book.Refused(&v, false)
	d.book.Told(&v, 304, 0, d.now, &d.rules)

	c := d.conduct("x")
	if !c.Since.Equal(began) || !c.Last.Equal(d.now) {
		t.Errorf("since %s, last %s", c.Since, c.Last)
	}
	if want := "Notes \ufffd 1.0 with a name that is longer than what"; d.conduct("x").Agent != "" {
		t.Errorf("agent %q: the last request had none", c.Agent)
	} else if d.visit("x", "GET", "User-Agent", "Notes \xff 1.0 with a name that is longer than what is kept of it"); d.conduct("x").Agent != want {
		t.Errorf("agent %q, want %q", d.conduct("x").Agent, want)
	}
	c.Since, c.Last, c.Interval = time.Time{}, time.Time{}, 0
	want := Conduct{
		Key: "x", Slower: 1, Often: time.Hour,
		Requests: 29, Unconditional: 4, MadeUp: 2, Uncompressed: 3, Extra: 1, Cookies: 24,
		Refused: 1, NotModified: 25, Bytes: 2 * int64(len(d.body)),
	}
	if c != want {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
}

// TestInterval: the median of the last gaps, whatever bursts there are between.
func TestInterval(t *testing.T) {
	d := named(newDesk(t))
	gap := func(want time.Duration) {
		t.Helper()
		if got := d.conduct("x").Interval; got != want {
			t.Errorf("every %s, want %s", got, want)
		}
	}
	poll := func(method string) { d.visit("x", method, "If-None-Match", `"v1"`) }
	poll("GET")
	gap(0)
	for range 4 { // HEAD, then GET: one of them
		d.pass(time.Hour)
		poll("HEAD")
		d.pass(time.Second)
		poll("GET")
	}
	gap(time.Hour)
	for range 7 { // four at once: one of them
		d.pass(10*time.Minute - time.Second)
		for range 4 {
			poll("GET")
			d.pass(250 * time.Millisecond)
		}
	}
	if got := d.conduct("x").Interval.Round(time.Second); got != 10*time.Minute-time.Second {
		t.Errorf("every %s", got)
	}
	for range 7 {
		d.pass(10 * time.Minute)
		poll("GET")
	}
	gap(10 * time.Minute)
	d.pass(-time.Hour) // a clock that is set back
	poll("GET")
	d.pass(100 * 24 * time.Hour)
	poll("GET")
	gap(10 * time.Minute)
}

// TestMannersAllocateNothing: a reader that is known costs no allocation.
func TestMannersAllocateNothing(t *testing.T) {
	d := named(newDesk(t))
	d.settle("x")
	q := d.request("x", 1, "GET", "If-None-Match", `"v1"`, "User-Agent", "Notes/1.0", "Cookie", "a=b", "Accept-Encoding", "gzip")
	if n := testing.AllocsPerRun(100, func() {
		q.Now = q.Now.Add(time.Minute)
		v := d.book.Enter(q, &d.rules)
		d.book.Refused(&v, true)
		d.book.Told(&v, 429, time.Hour, q.Now, &d.rules)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestNamed: a reader that is known by name goes by it, and one that many share may poll as often.
func TestNamed(t *testing.T) {
	d := named(newDesk(t))
	for range 6 {
		q := d.request("key", 4, "GET", "If-None-Match", `"v1"`, "Accept-Encoding", "gzip")
		q.Reader.Name = "an aggregator with a long name"
		v := d.book.Enter(q, &d.rules)
		d.answer(&v, q)
		d.pass(15 * time.Minute)
	}
	c := d.conduct("an aggregator with a l")
	if c.Often != 15*time.Minute || len(c.Verdict()) > 0 || c.Score() != 100 {
		t.Errorf("%+v: %q", c, c.Verdict())
	}
}

func BenchmarkEnter(b *testing.B) {
	book, rules := NewBook(), Rules{Escalate: 8, Often: time.Hour}
	d := &desk{now: noon}
	q := d.request("x", 1, "GET", "If-None-Match", `"v1"`, "User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0", "Accept-Encoding", "gzip, br")
	b.ReportAllocs()
	for b.Loop() {
		q.Now = q.Now.Add(time.Minute)
		v := book.Enter(q, &rules)
		book.Refused(&v, false)
	}
}

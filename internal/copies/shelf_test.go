package copies

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// record puts an answer on a shelf, in pieces, for an hour.
func record(t *testing.T, s *Shelf, key, body string, r *http.Request, fields ...string) bool {
	t.Helper()
	rec, _ := s.Record(key, r, http.StatusOK, header(fields...), noon)
	if rec == nil {
		return false
	}
	for len(body) > 0 {
		n := min(len(body), 1000)
		_, _ = rec.Write([]byte(body[:n]))
		body = body[n:]
	}
	return rec.Keep(noon, noon.Add(time.Hour))
}

func TestFind(t *testing.T) {
	s := NewShelf(1 << 20)
	plain, zipped := get("/"), get("/", "Accept-Encoding", "gzip, br")
	if _, ok := s.Find("a", zipped.Header, noon); ok {
		t.Error("an empty shelf has something")
	}
	record(t, s, "a", strings.Repeat("long ", 100), plain)
	record(t, s, "a", "short", zipped, "Content-Encoding", "gzip", "Content-Length", "5", "Age", "30")
	record(t, s, "b", "json", get("/", "Accept", "application/json"), "Vary", "Accept")
	for _, c := range []struct {
		key    string
		header http.Header
		body   string // empty for none
	}{
		{"a", plain.Header, strings.Repeat("long ", 100)},
		{"a", zipped.Header, "short"},
		{"a", header("Accept-Encoding", "br"), strings.Repeat("long ", 100)},
		{"b", plain.Header, ""},
		{"b", header("Accept", "application/json"), "json"},
		{"c", plain.Header, ""},
	} {
		got, ok := s.Find(c.key, c.header, noon)
		if ok != (c.body != "") || string(got.Body) != c.body {
			t.Errorf("%s %v: %q", c.key, c.header, got.Body)
		}
	}
	if c, _ := s.Find("a", zipped.Header, noon); c.Age(noon.Add(10*time.Second)) != 40*time.Second {
		t.Errorf("age: %v", c.Age(noon.Add(10*time.Second)))
	}
	if _, ok := s.Find("a", plain.Header, noon.Add(time.Hour)); ok {
		t.Error("what is over is found")
	}
	if held := s.Held(); held > 3*(overhead+1)+2*overhead {
		t.Errorf("%d bytes are held", held)
	}
}

// TestReplace: a copy takes the place of its like, and of what was modified earlier.
func TestReplace(t *testing.T) {
	s := NewShelf(1 << 20)
	zipped := get("/", "Accept-Encoding", "gzip")
	date := func(hour int) string { return noon.Add(time.Duration(hour) * time.Hour).Format(http.TimeFormat) }
	record(t, s, "a", "plain 1", get("/"), "Last-Modified", date(1))
	record(t, s, "a", "zipped 1", zipped, "Last-Modified", date(1), "Content-Encoding", "gzip")
	record(t, s, "a", "plain 1 again", get("/"), "Last-Modified", date(1))
	if c, _ := s.Find("a", get("/").Header, noon); string(c.Body) != "plain 1 again" {
		t.Errorf("%q", c.Body)
	}
	record(t, s, "a", "zipped 2", zipped, "Last-Modified", date(2), "Content-Encoding", "gzip")
	if c, ok := s.Find("a", get("/").Header, noon); ok {
		t.Errorf("%q, which is older than another", c.Body)
	}
	for i := range 3 * variants {
		record(t, s, "b", "x", get("/", "Accept", fmt.Sprint(i)), "Vary", "Accept")
	}
	if n := len(s.look("b", noon).copies); n != variants {
		t.Errorf("%d copies of one address", n)
	}
}

func TestConfirm(t *testing.T) {
	s := NewShelf(1 << 20)
	record(t, s, "a", "x", get("/"), "Etag", `"x"`, "Age", "60")
	later := noon.Add(50 * time.Minute)
	meant := func(c *Copy) bool { return c.Header.Get("Etag") == `"x"` }
	if s.Confirm("a", nil, later, later.Add(time.Hour), func(*Copy) bool { return false }) || s.Confirm("b", nil, later, later, meant) {
		t.Error("what is not meant is confirmed")
	}
	if !s.Confirm("a", nil, later, later.Add(time.Hour), meant) {
		t.Error("what is meant is not confirmed")
	}
	c, ok := s.Find("a", nil, noon.Add(100*time.Minute))
	if !ok || c.Age(noon.Add(100*time.Minute)) != 50*time.Minute {
		t.Errorf("%v, %v", ok, c.Age(noon.Add(100*time.Minute)))
	}
}

// TestConfirmByCache: what a cache confirms holds since the cache was told so, and is made no older by it.
func TestConfirmByCache(t *testing.T) {
	s := NewShelf(1 << 20)
	record(t, s, "a", "x", get("/"))
	all := func(*Copy) bool { return true }
	later := noon.Add(30 * time.Minute)
	for age, want := range map[string]time.Duration{"7200": 30 * time.Minute, "600": 10 * time.Minute} {
		record(t, s, "a", "x", get("/"))
		if !s.Confirm("a", header("Age", age), later, later.Add(time.Hour), all) {
			t.Fatal("what is meant is not confirmed")
		}
		if c, _ := s.Find("a", nil, later); c.Age(later) != want {
			t.Errorf("confirmed by an answer that is %s s old: %v old, want %v", age, c.Age(later), want)
		}
		s.Forget("a", nil, later)
	}
}

// TestOlderIsNotKept: an answer that is older than a copy takes not its place, nor one beside it, unless the site
// itself has gone back.
func TestOlderIsNotKept(t *testing.T) {
	old, last := noon.Add(-time.Hour).Format(http.TimeFormat), noon.Format(http.TimeFormat)
	zipped := get("/", "Accept-Encoding", "gzip")
	for name, c := range map[string]struct {
		r      *http.Request
		fields []string
		kept   bool
	}{
		"from a cache":      {get("/"), []string{"Age", "60"}, false},
		"in another coding": {zipped, []string{"Age", "60", "Content-Encoding", "gzip", "Last-Modified", old}, false},
		"the same version":  {zipped, []string{"Age", "60", "Content-Encoding", "gzip", "Last-Modified", last}, true},
		"of the site":       {get("/"), []string{"Last-Modified", old}, true},
		"newer":             {get("/"), []string{"Age", "20"}, true},
	} {
		s := NewShelf(1 << 20)
		record(t, s, "a", "new", get("/"), "Age", "30", "Last-Modified", last)
		if kept := record(t, s, "a", "old", c.r, c.fields...); kept != c.kept || s.taken != 0 {
			t.Errorf("%s: %v, %d bytes of recordings", name, kept, s.taken)
		}
		if got, ok := s.Find("a", get("/").Header, noon); !ok && c.r != zipped || !c.kept && string(got.Body) != "new" {
			t.Errorf("%s: %q", name, got.Body)
		}
	}
	// Nor is one that was overtaken: the site was asked for it before it has confirmed what is kept.
	s := NewShelf(1 << 20)
	record(t, s, "a", "new", get("/"))
	rec, _ := s.Record("a", get("/"), http.StatusOK, header(), noon)
	_, _ = rec.Write([]byte("old"))
	s.Confirm("a", nil, noon.Add(time.Second), noon.Add(time.Hour), func(*Copy) bool { return true })
	if rec.Keep(noon.Add(2*time.Second), noon.Add(time.Hour)) {
		t.Error("what was overtaken is kept")
	}
}

// TestOlderIsNotRecorded: of an answer that is older than a copy when it begins nothing is held.
func TestOlderIsNotRecorded(t *testing.T) {
	s := NewShelf(1 << 20)
	record(t, s, "a", "new", get("/"), "Age", "30")
	for age, want := range map[string]bool{"31": false, "30": true, "29": true} {
		rec, fits := s.Record("a", get("/"), http.StatusOK, header("Age", age, "Content-Length", "1000"), noon)
		if (rec != nil) != want || !fits || want != (s.taken > 0) {
			t.Errorf("%s s old: recorded %v, fits %v, %d bytes", age, rec != nil, fits, s.taken)
		}
		if rec != nil {
			rec.Drop()
		}
	}
}

// TestForget: what is not there any more is dropped, unless it is a cache that says so and has not heard of it yet.
func TestForget(t *testing.T) {
	for age, want := range map[string]bool{"": false, "0": false, "29": false, "30": false, "31": true} {
		s := NewShelf(1 << 20)
		record(t, s, "a", "x", get("/"), "Age", "30")
		h := header()
		if age != "" {
			h.Set("Age", age)
		}
		s.Forget("a", h, noon)
		if _, ok := s.Find("a", nil, noon); ok != want {
			t.Errorf("by an answer of Age %q: kept %v", age, ok)
		}
		s.Forget("b", h, noon)
	}
}

// TestSlowIsNoYounger: an answer is as old as when it began, however long its client took to take it in.
func TestSlowIsNoYounger(t *testing.T) {
	s := NewShelf(1 << 20)
	rec, _ := s.Record("a", get("/"), http.StatusOK, header(), noon)
	_, _ = rec.Write([]byte("slow"))
	end := noon.Add(20 * time.Second)
	rec.Keep(end, end.Add(time.Hour))
	if c, _ := s.Find("a", nil, end); c.Age(end) != 20*time.Second {
		t.Errorf("what took 20 s is %v old", c.Age(end))
	}
	rec, _ = s.Record("a", get("/"), http.StatusOK, header("Age", "10"), end)
	if !rec.Keep(end, end.Add(time.Hour)) {
		t.Error("an answer is not kept that was made after the other one had begun")
	}
}

func TestAlone(t *testing.T) {
	s := NewShelf(1 << 20)
	s.LeaveAlone("a", noon.Add(time.Minute), noon)
	if !s.Alone("a", noon) || s.Alone("a", noon.Add(time.Minute)) || s.Alone("b", noon) {
		t.Error("the mark is not for its key and time")
	}
	record(t, s, "a", "x", get("/"))
	if s.Alone("a", noon) {
		t.Error("there is a copy, and a mark that says there is none")
	}
}

// TestWhole: what was cut off, or is longer than it said, is not kept.
func TestWhole(t *testing.T) {
	s := NewShelf(1 << 20)
	for length, want := range map[string]bool{"4": false, "5": true, "6": false, "x": false, "-1": false} {
		if got := record(t, s, "a", "12345", get("/"), "Content-Length", length); got != want {
			t.Errorf("5 bytes of %s: kept %v", length, got)
		}
	}
	if s.taken != 0 {
		t.Errorf("recordings that are over hold %d bytes", s.taken)
	}
}

// TestOneRecords: while one request records, others do not; a dropped one leaves room.
func TestOneRecords(t *testing.T) {
	s := NewShelf(1 << 20)
	first, fits := s.Record("a", get("/"), 200, header(), noon)
	if first == nil || !fits {
		t.Fatal("nothing is recorded")
	}
	if rec, fits := s.Record("a", get("/"), 200, header(), noon); rec != nil || !fits {
		t.Error("two record")
	}
	first.Drop()
	first.Drop()
	if rec, _ := s.Record("a", get("/"), 200, header(), noon); rec == nil {
		t.Error("nobody may record after one was dropped")
	} else if rec.Keep(noon, noon.Add(1)); first.Keep(noon, noon.Add(1)) {
		t.Error("a dropped recording is kept")
	}
}

// TestSlowRecords: a client that takes in nothing keeps nobody else from recording for long.
func TestSlowRecords(t *testing.T) {
	s := NewShelf(1 << 20)
	record := func(age time.Duration) *Recording {
		rec, _ := s.Record("a", get("/"), 200, header(), noon.Add(age))
		return rec
	}
	first := record(0)
	_, _ = first.Write([]byte("first"))
	if record(slow-1) != nil {
		t.Error("two record the same at once")
	}
	second := record(slow)
	if second == nil {
		t.Fatal("a slow client keeps all others from recording")
	}
	if _, _ = second.Write([]byte("second")); !second.Keep(noon, noon.Add(time.Hour)) {
		t.Error("what took over is not kept")
	}
	if first.Keep(noon, noon.Add(time.Hour)) {
		t.Error("what is older takes the place of what is newer")
	}
	if c, ok := s.Find("a", header(), noon); !ok || string(c.Body) != "second" || s.taken != 0 {
		t.Errorf("%q, %v, %d bytes of recordings", c.Body, ok, s.taken)
	}
	if rec := record(slow); rec == nil {
		t.Error("nobody may record any more")
	}
}

// TestBounds: a shelf takes no more than it may, whatever comes, and a copy no more than a quarter.
func TestBounds(t *testing.T) {
	const most = 256 << 10
	s := NewShelf(most)
	if record(t, s, "a", strings.Repeat("x", most/largest), get("/")) {
		t.Error("a copy takes more than a quarter")
	}
	if _, fits := s.Record("a", get("/"), 200, header("Content-Length", "100000"), noon); fits {
		t.Error("what says that it is too long fits")
	}
	rec, _ := s.Record("b", get("/"), 200, header(), noon)
	for range 100 {
		_, _ = rec.Write(make([]byte, 1000))
	}
	if !rec.Lost() || rec.copy.Body != nil || rec.Keep(noon, noon.Add(time.Hour)) {
		t.Error("what is too long is kept")
	}
	var open []*Recording
	for i := range 5000 {
		switch rand.IntN(4) {
		case 0:
			s.LeaveAlone(fmt.Sprint("mark", i), noon.Add(time.Hour), noon)
		case 1:
			if rec, _ := s.Record(fmt.Sprint("open", i), get("/"), 200, header(), noon); rec != nil {
				_, _ = rec.Write(make([]byte, rand.IntN(9000)))
				open = append(open, rec)
			}
		case 2:
			if len(open) > 0 {
				open[0].Drop()
				open = open[1:]
			}
		default:
			record(t, s, fmt.Sprint("key", i), strings.Repeat("x", rand.IntN(20_000)), get("/"))
		}
		if s.held+s.taken > most+2*overhead {
			t.Fatalf("%d and %d of %d bytes", s.held, s.taken, most)
		}
		var sum int64
		for _, at := range s.entries {
			e := at.Value.(*entry)
			size := int64(len(e.key)) + overhead
			for _, c := range e.copies {
				size += c.size()
			}
			if size != e.size {
				t.Fatalf("%s takes %d bytes and counts as %d", e.key, size, e.size)
			}
			sum += size
		}
		if sum != s.held || len(s.entries) != s.order.Len() {
			t.Fatalf("%d bytes count as %d", sum, s.held)
		}
	}
	for _, rec := range open {
		rec.Drop()
	}
	if s.taken != 0 {
		t.Errorf("%d bytes are taken by nobody", s.taken)
	}
	if s.SetMost(0); s.held != 0 || len(s.entries) != 0 {
		t.Errorf("%d bytes are held where there is no room", s.held)
	}
}

// TestOldestGoes: what was not asked for longest makes room.
func TestOldestGoes(t *testing.T) {
	s := NewShelf(5 * (2*overhead + 1000))
	for i := range 4 {
		record(t, s, fmt.Sprint(i), strings.Repeat("x", 900), get("/"), "Content-Length", "900")
	}
	s.Find("0", nil, noon)
	for i := range 2 {
		record(t, s, fmt.Sprint("new", i), strings.Repeat("x", 900), get("/"), "Content-Length", "900")
	}
	for key, want := range map[string]bool{"0": true, "1": false, "new0": true, "new1": true} {
		if _, ok := s.Find(key, nil, noon); ok != want {
			t.Errorf("%s: %v", key, ok)
		}
	}
}

// TestShelfTogether has many use a shelf at once, for the race detector.
func TestShelfTogether(t *testing.T) {
	s := NewShelf(64 << 10)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 500 {
				key := fmt.Sprint(rand.IntN(20))
				switch i % 4 {
				case 0:
					if rec, _ := s.Record(key, get("/"), 200, header(), noon); rec != nil {
						_, _ = rec.Write([]byte(key))
						rec.Keep(noon, noon.Add(time.Hour))
					}
				case 1:
					s.Confirm(key, nil, noon, noon.Add(time.Hour), func(*Copy) bool { return true })
				case 2:
					s.LeaveAlone(key, noon.Add(time.Hour), noon)
				default:
					if c, ok := s.Find(key, nil, noon); ok && string(c.Body) != key {
						t.Errorf("%s holds %q", key, c.Body)
					}
				}
			}
		})
	}
	wg.Wait()
}

package source

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A server answers in a bubble, where no real one can.
type server struct {
	asked  []time.Time
	answer func(n int) (*http.Response, error) // n counts from 1
	header []http.Header
}

// RoundTrip answers.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	turn()
	s.asked, s.header = append(s.asked, time.Now()), append(s.header, r.Header)
	return s.answer(len(s.asked))
}

func answer(code int, body string, fields ...string) (*http.Response, error) {
	h := make(http.Header)
	for i := 0; i < len(fields); i += 2 {
		h.Set(fields[i], fields[i+1])
	}
	return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// gaps are the times between the requests.
func (s *server) gaps() []time.Duration {
	var all []time.Duration
	for i := 1; i < len(s.asked); i++ {
		all = append(all, s.asked[i].Sub(s.asked[i-1]))
	}
	return all
}

const example = "https://example.com/list"

func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := &server{answer: func(n int) (*http.Response, error) { return answer(200, many(n)) }}
		var w watcher
		d := source(t, example, Download{transport: s}, Options{Report: w.report})
		w.start(t, d)
		after(10 * 24 * time.Hour)
		if len(s.asked) < 9 || len(s.asked) > 10 || len(w.lists) != len(s.asked) || len(w.tries) != len(s.asked) {
			t.Errorf("asked %d times in ten days, %d lists, %d reports", len(s.asked), len(w.lists), len(w.tries))
		}
		if first := s.asked[0].Sub(start); first >= firstSpread {
			t.Errorf("first after %s", first)
		}
		for _, gap := range s.gaps() {
			if gap < 24*time.Hour || gap > 24*time.Hour+144*time.Minute {
				t.Errorf("asked again after %s", gap)
			}
		}
		if st := d.Status(); !st.Next.After(time.Now()) || !st.Success.Equal(s.asked[len(s.asked)-1]) || !st.Try.Equal(st.Success) {
			t.Errorf("status %+v", st)
		}
	})
}

// TestNotReachedAtStart: the name cannot be resolved yet (B46). It is tried again soon, then less
// often, and the list is there once it can be had.
func TestNotReachedAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answer: func(n int) (*http.Response, error) {
			if n <= 12 {
				return nil, errors.New("lookup example.com: no such host")
			}
			return answer(200, many(3))
		}}
		var w watcher
		d := source(t, "http://localhost/list", Download{transport: s}, Options{})
		w.start(t, d)
		after(10 * time.Second)
		if st := d.Status(); len(s.asked) != 2 || st.Error != "lookup example.com: no such host" || st.Failures != 2 {
			t.Errorf("asked %d times, %+v", len(s.asked), st)
		}
		after(24 * time.Hour)
		if len(w.lists) != 1 || d.Status().Error != "" || d.Status().Failures != 0 {
			t.Errorf("%d lists, %+v", len(w.lists), d.Status())
		}
		want := unreached
		for i, gap := range s.gaps()[:12] {
			if gap < want || gap > want+want/4 {
				t.Errorf("try %d came %s after the one before, want %s or a little more", i+2, gap, want)
			}
			want = min(2*want, longestWait)
		}
	})
}

// run is a process that watches a list for a while and is gone.
func run(t *testing.T, address string, how Download, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := source(t, address, how, Options{}).Watch(ctx, func(Parsed, Status) {}); err != nil {
		t.Error(err)
	}
}

// TestHostsThatBan: Spamhaus is asked once an hour at most, whatever goes wrong and however
// often we are started.
func TestHostsThatBan(t *testing.T) {
	for name, result := range map[string]func(int) (*http.Response, error){
		"an error":    func(int) (*http.Response, error) { return answer(500, "") },
		"a page":      func(int) (*http.Response, error) { return answer(200, "<html>", "Retry-After", "1") },
		"no answer":   func(int) (*http.Response, error) { return nil, errors.New("connection reset") },
		"a good list": func(n int) (*http.Response, error) { return answer(200, many(n)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{answer: result}
				how := Download{Refresh: time.Hour, Dir: t.TempDir(), transport: s}
				for i := range 40 {
					run(t, "https://www.spamhaus.org/drop/drop_v4.json", how, time.Duration(i)*time.Minute)
				}
				for _, gap := range s.gaps() {
					if gap < time.Hour {
						t.Errorf("asked again after %s", gap)
					}
				}
				if len(s.asked) < 8 {
					t.Errorf("asked %d times in thirteen hours", len(s.asked))
				}
			})
		})
	}
}

// TestClockWasWrong: a record of the future keeps nobody waiting for ever.
func TestClockWasWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answer: func(int) (*http.Response, error) { return answer(200, many(3)) }}
		how := Download{Dir: t.TempDir(), transport: s}
		d := source(t, example, how, Options{})
		future := time.Now().AddDate(30, 0, 0)
		if err := d.shelf.save(record{Tried: future, NotBefore: future}); err != nil {
			t.Fatal(err)
		}
		var w watcher
		w.start(t, d)
		after(patience + time.Minute)
		if len(w.lists) != 1 {
			t.Errorf("%d lists", len(w.lists))
		}
	})
}

func TestServerNamesTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answer: func(n int) (*http.Response, error) {
			switch n {
			case 1:
				return answer(503, "", "Retry-After", "10800")
			case 2:
				return answer(200, many(3), "ETag", `"a"`, "Cache-Control", "max-age=604800")
			}
			return answer(304, "")
		}}
		var w watcher
		d := source(t, example, Download{transport: s}, Options{})
		w.start(t, d)
		after(20 * 24 * time.Hour)
		if gap := s.gaps()[0]; gap < 3*time.Hour || gap > 3*time.Hour+10*time.Minute {
			t.Errorf("told to stay away for three hours, came back after %s", gap)
		}
		if gap := s.gaps()[1]; gap != 7*24*time.Hour {
			t.Errorf("told that nothing changes for a week, came back after %s", gap)
		}
		if gap := s.gaps()[2]; gap < 24*time.Hour || gap > 27*time.Hour || s.header[2].Get("If-None-Match") != `"a"` {
			t.Errorf("came back after %s with %v", gap, s.header[2])
		}
		if len(w.lists) != 1 {
			t.Errorf("%d lists", len(w.lists))
		}
	})
}

// TestRestart: the copy is in force before any server is asked, and none is asked too soon.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &server{answer: func(int) (*http.Response, error) {
			return answer(200, `{"new":[{"value":"198.51.100.1","duration":"30h"},{"value":"198.51.100.2"},{"value":"198.51.100.3","duration":"1h"}]}`)
		}}
		begun := time.Now()
		first := source(t, example, Download{Dir: dir, transport: s}, Options{})
		first.once(t)
		after(6 * time.Hour)

		var w watcher
		d := source(t, example, Download{Dir: dir, transport: s}, Options{})
		w.start(t, d)
		if w.last() != "198.51.100.1/32 198.51.100.2/32" || len(s.asked) != 1 || !w.states[0].FromCopy || w.states[0].Age(time.Now()) != 6*time.Hour {
			t.Fatalf("at once: %s, asked %d times, %+v", w.last(), len(s.asked), w.states)
		}
		// The end is that of the first download, not later by what passed since (B08).
		if end := w.lists[0].Until[prefixes("198.51.100.1/32")[0]]; !end.Equal(begun.Add(30 * time.Hour)) {
			t.Errorf("ends at %s", end.Sub(begun))
		}
		after(24*time.Hour - 6*time.Hour - time.Second)
		if len(s.asked) != 1 {
			t.Errorf("asked too soon: %v", s.gaps())
		}
		s.answer = func(int) (*http.Response, error) { return nil, errors.New("no route to host") }
		after(4 * time.Hour)
		if len(s.asked) < 2 || d.Status().Prefixes != 2 || d.Status().Error == "" {
			t.Errorf("asked %d times, %+v", len(s.asked), d.Status())
		}
		after(3 * time.Hour)
		if w.last() != "198.51.100.2/32" {
			t.Errorf("after the end: %s", w.last())
		}
	})
}

// TestStartedAgainAndAgain: who crashes at every start does not ask at every start.
func TestStartedAgainAndAgain(t *testing.T) {
	for code, most := range map[int]int{200: 1, 500: 12} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{answer: func(int) (*http.Response, error) { return answer(code, many(3)) }}
			how := Download{Dir: t.TempDir(), transport: s}
			for range 1200 {
				run(t, example, how, 3*time.Second)
			}
			if len(s.asked) < 1 || len(s.asked) > most {
				t.Errorf("%d: asked %d times in an hour", code, len(s.asked))
			}
		})
	}
}

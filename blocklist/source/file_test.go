package source

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// turns orders what a test looks at before what a source does afterwards, of which the race
// detector learns nothing from a clock.
var turns sync.Mutex

// turn ends one turn and begins the next.
func turn() {
	turns.Lock()
	defer turns.Unlock()
}

// A watcher runs a source in a bubble and notes what it reports.
type watcher struct {
	lists  []Parsed
	states []Status
	tries  []Status
}

// start watches the source until the test ends.
func (w *watcher) start(t *testing.T, s Source) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- s.Watch(ctx, func(p Parsed, st Status) {
			turn()
			w.lists, w.states = append(w.lists, p), append(w.states, st)
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
}

// report notes a try.
func (w *watcher) report(st Status) {
	turn()
	w.tries = append(w.tries, st)
}

// after lets time pass.
func after(d time.Duration) {
	turn()
	<-time.After(d)
	synctest.Wait()
}

// last is the list reported last, on one line.
func (w *watcher) last() string {
	if len(w.lists) == 0 {
		return "none"
	}
	p := w.lists[len(w.lists)-1]
	var words []string
	for _, prefix := range p.Prefixes {
		words = append(words, prefix.String())
	}
	return strings.Join(append(words, p.Agents...), " ")
}

// write writes a file as it would be at this moment.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
}

// many is a list of n addresses.
func many(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(netip.AddrFrom4([4]byte{198, 51, byte(i >> 8), byte(i)}).String() + "\n")
	}
	return b.String()
}

func TestFileIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "bad.txt")
		write(t, path, "198.51.100.1\n10.0.0.1\nnonsense\n")
		var w watcher
		s := File(path, Options{Report: w.report})
		w.start(t, s)
		if w.last() != "198.51.100.1/32" {
			t.Fatalf("got %s", w.last())
		}
		st := s.Status()
		if st.Name != path || st.Where != path || st.Format != Plain || st.Prefixes != 1 || st.Stripped != 1 || st.Rejected != 1 ||
			st.Lines[0].Number != 3 || st.Error != "" || !st.Success.Equal(time.Now()) || st.Age(time.Now().Add(time.Minute)) != time.Minute {
			t.Errorf("status %+v", st)
		}

		// While it is being written it is left alone.
		after(time.Second)
		for i := range 5 {
			write(t, path, many(i+2))
			after(time.Second)
		}
		if len(w.lists) != 1 {
			t.Errorf("read while it was written: %s", w.last())
		}
		after(time.Second)
		if len(w.lists) != 2 || len(w.lists[1].Prefixes) != 6 {
			t.Errorf("after the change: %d lists, the last is %s", len(w.lists), w.last())
		}

		// Touched is not changed.
		after(time.Minute)
		write(t, path, many(6))
		after(time.Minute)
		if len(w.lists) != 2 || len(w.tries) != 3 {
			t.Errorf("touched: %d lists, %d tries", len(w.lists), len(w.tries))
		}
	})
}

// TestFileKeepsWhatItHad: L128 for files.
func TestFileKeepsWhatItHad(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"no byte", "", "is empty"},
		{"only comments", "# nothing\n", "is empty, and had 40 entries: it stays as it was"},
		{"a page", "<html>", "is a web page, not a list"},
		{"half of it", many(19), "has only 19 entries, and had 40: it stays as it was"},
		{"nonsense", "not\na\nlist\n", `has more lines that make no sense as plain (3) than lines that do (0); the first is line 1: "not": must be an address or a CIDR range`},
		{"too many", many(101), "has more than 100 entries"},
		{"only private addresses", "10.0.0.1\n", "has only 1 entries, and had 40: it stays as it was"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "bad.txt")
				write(t, path, many(40))
				s := File(path, Options{Limits: Limits{MaxEntries: 100}})
				p, err := s.Load()
				if err != nil || len(p.Prefixes) != 40 {
					t.Fatal(p, err)
				}
				var w watcher
				w.start(t, s)
				write(t, path, tt.text)
				after(5 * time.Second)
				st := s.Status()
				if len(w.lists) != 0 || st.Prefixes != 40 || st.Error != tt.want || st.Failures != 1 {
					t.Errorf("got %d lists, status %+v", len(w.lists), st)
				}
				// What is good again is taken again.
				write(t, path, many(39))
				after(5 * time.Second)
				if st := s.Status(); len(w.lists) != 1 || st.Prefixes != 39 || st.Error != "" || st.Failures != 0 {
					t.Errorf("afterwards: %d lists, status %+v", len(w.lists), st)
				}
			})
		})
	}
}

func TestFileAcceptsShrunken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "bad.txt")
		write(t, path, many(40))
		var w watcher
		w.start(t, File(path, Options{AcceptShrunken: true}))
		for _, text := range []string{many(1), "# on purpose\n"} {
			after(time.Second)
			write(t, path, text)
			after(3 * time.Second)
		}
		if len(w.lists) != 3 || w.last() != "" {
			t.Errorf("got %d lists, the last is %s", len(w.lists), w.last())
		}
	})
}

func TestFileIsGoneAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "bad.txt")
		var w watcher
		s := File(path, Options{Report: w.report})
		if _, err := s.Load(); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("no file: %v", err)
		}
		w.start(t, s)
		after(time.Minute)
		if len(w.lists) != 0 || len(w.tries) > 1 {
			t.Errorf("%d lists, %d reports of one fault", len(w.lists), len(w.tries))
		}
		write(t, path, "198.51.100.1\n")
		after(time.Second)
		if w.last() != "198.51.100.1/32" {
			t.Errorf("it came: %s", w.last())
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		after(2 * time.Second)
		if st := s.Status(); st.Prefixes != 1 || !strings.Contains(st.Error, "no such file") {
			t.Errorf("it went: %+v", st)
		}
		// Another file takes its place in one step.
		write(t, path+".new", "198.51.100.2\n")
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		after(3 * time.Second)
		if w.last() != "198.51.100.2/32" || s.Status().Error != "" {
			t.Errorf("another came: %s, %+v", w.last(), s.Status())
		}
	})
}

// TestFileEndsCountFromWhenItWasWritten: a restart makes no ban longer (B08), and entries go when
// they end (B16).
func TestFileEndsCountFromWhenItWasWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "saved.ipset")
		write(t, path, "add a 198.51.100.1 timeout 600\nadd a 198.51.100.2 timeout 605\nadd a 198.51.100.3 timeout 3600\nadd a 198.51.100.4 timeout 100\n")
		after(5 * time.Minute)
		var w watcher
		w.start(t, File(path, Options{}))
		if w.last() != "198.51.100.1/32 198.51.100.2/32 198.51.100.3/32" {
			t.Fatalf("got %s", w.last())
		}
		if end := w.lists[0].Until[prefixes("198.51.100.1/32")[0]]; !end.Equal(time.Now().Add(5 * time.Minute)) {
			t.Errorf("ends at %s, now is %s", end, time.Now())
		}
		after(5*time.Minute + time.Second)
		if w.last() != "198.51.100.2/32 198.51.100.3/32" {
			t.Errorf("after one end: %s", w.last())
		}
		// Ends that follow closely are reported together.
		after(50 * time.Second)
		if len(w.lists) != 2 {
			t.Errorf("%d lists", len(w.lists))
		}
		after(12 * time.Second)
		if w.last() != "198.51.100.3/32" {
			t.Errorf("after two ends: %s", w.last())
		}
		after(time.Hour)
		if w.last() != "" || len(w.lists) != 4 {
			t.Errorf("after all ends: %s, %d lists", w.last(), len(w.lists))
		}
	})
}

// TestProtected: whoever asks may change his mind between two lists.
func TestProtected(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.txt")
	write(t, path, "203.0.113.0/30\n192.168.1.0/24\n")
	protected := prefixes("203.0.113.1/32")
	s := File(path, Options{KeepPrivate: true, Protected: func() []netip.Prefix { return protected }})
	p, err := s.Load()
	if err != nil || !slices.Equal(p.Prefixes, prefixes("192.168.1.0/24 203.0.113.0/32 203.0.113.2/31")) || !slices.Equal(p.Stripped, protected) {
		t.Errorf("got %v, stripped %v, %v", p.Prefixes, p.Stripped, err)
	}
	protected = prefixes("192.168.0.0/16")
	if p, err = s.Load(); err != nil || !slices.Equal(p.Prefixes, prefixes("203.0.113.0/30")) || s.Status().Stripped != 1 {
		t.Errorf("got %v, %v", p.Prefixes, err)
	}
}

func TestOneWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := File(filepath.Join(t.TempDir(), "none"), Options{Name: "mine"})
		var w watcher
		w.start(t, s)
		if err := s.Watch(t.Context(), nil); err == nil || err.Error() != `source "mine": is watched already` {
			t.Errorf("got %v", err)
		}
	})
}

// A file that is not there at the start is told of once: by whoever loads, and not again by whoever looks.
func TestFileIsAbsent(t *testing.T) {
	told := 0
	f := File(filepath.Join(t.TempDir(), "absent"), Options{Report: func(Status) { told++ }}).(*file)
	_, err := f.Load()
	if err == nil || !strings.HasSuffix(err.Error(), f.Status().Error) {
		t.Fatalf("%v, and the status says %q", err, f.Status().Error)
	}
	f.look(func(Parsed, Status) { t.Error("there is a list") })
	if told != 0 {
		t.Error("told again")
	}
}

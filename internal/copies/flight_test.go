package copies

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// enter joins a flight and waits, and tells ends how it ended.
func (fs *Flights) enter(t *testing.T, ctx context.Context, late <-chan time.Time, ends chan End) {
	t.Helper()
	f, leads := fs.Enter("a")
	if f == nil || leads {
		t.Fatalf("%v, leads %v", f, leads)
	}
	go func() { ends <- f.Wait(ctx, late) }()
}

// TestFlight: all who wait for one that lands hear whether there is a copy; the next one is another.
func TestFlight(t *testing.T) {
	for kept, want := range map[bool]End{true: Landed, false: Empty} {
		fs := NewFlights(10)
		f, leads := fs.Enter("a")
		if !leads {
			t.Fatal("the first does not lead")
		}
		if _, leads := fs.Enter("b"); !leads {
			t.Error("there is one flight for two keys")
		}
		ends := make(chan End)
		fs.enter(t, t.Context(), nil, ends)
		fs.enter(t, t.Context(), nil, ends)
		f.Land(kept)
		if a, b := <-ends, <-ends; a != want || b != want {
			t.Errorf("ends %d and %d, want %d", a, b, want)
		}
		if _, leads := fs.Enter("a"); !leads {
			t.Error("nobody leads after one has landed")
		}
		if n := fs.Waiting(); n != 0 {
			t.Errorf("%d wait", n)
		}
	}
}

// TestLeftBehind: who was late has others wait for somebody else; those who wait already still hear.
func TestLeftBehind(t *testing.T) {
	fs := NewFlights(10)
	slow, _ := fs.Enter("a")
	ends := make(chan End)
	fs.enter(t, t.Context(), nil, ends)
	slow.Leave()
	next, leads := fs.Enter("a")
	if !leads {
		t.Fatal("others wait for one that is late")
	}
	slow.Land(true)
	if end := <-ends; end != Landed {
		t.Errorf("end %d", end)
	}
	if _, leads := fs.Enter("a"); leads {
		t.Error("the late one ended the next")
	}
	next.Land(true)
}

// TestHandOver: if the leader fails one of those who wait leads, until nobody is left.
func TestHandOver(t *testing.T) {
	fs := NewFlights(10)
	f, _ := fs.Enter("a")
	ends := make(chan End)
	for range 3 {
		fs.enter(t, t.Context(), nil, ends)
	}
	for left := 2; left >= 0; left-- {
		f.HandOver()
		if end := <-ends; end != Leads || fs.Waiting() != left {
			t.Fatalf("end %d, %d wait", end, fs.Waiting())
		}
		select {
		case end := <-ends:
			t.Fatalf("another one ended with %d", end)
		default:
		}
	}
	f.HandOver()
	if len(fs.flying) != 0 {
		t.Error("a flight flies on without anybody")
	}
}

// TestLeave: who is gone or late leaves; and no flight is left that nobody leads.
func TestLeave(t *testing.T) {
	fs := NewFlights(10)
	f, _ := fs.Enter("a")
	ctx, cancel := context.WithCancel(t.Context())
	late := make(chan time.Time, 1)
	gone, slow := make(chan End), make(chan End)
	fs.enter(t, ctx, nil, gone)
	fs.enter(t, t.Context(), late, slow)
	cancel()
	late <- time.Time{}
	if a, b := <-gone, <-slow; a != Gone || b != Late {
		t.Errorf("%d and %d", a, b)
	}
	f.HandOver()
	if _, leads := fs.Enter("a"); !leads {
		t.Error("nobody leads")
	}
}

// TestMost: no more wait than may.
func TestMost(t *testing.T) {
	fs := NewFlights(2)
	f, _ := fs.Enter("a")
	ends := make(chan End)
	fs.enter(t, t.Context(), nil, ends)
	fs.enter(t, t.Context(), nil, ends)
	if f, leads := fs.Enter("a"); f != nil || leads {
		t.Error("a third waits")
	}
	if _, leads := fs.Enter("b"); !leads {
		t.Error("nobody may lead another")
	}
	f.Land(true)
	<-ends
	<-ends
}

// TestFlightsTogether has many enter, fail, leave and land at once: in the end everybody has an end,
// nobody waits, and never do two lead.
func TestFlightsTogether(t *testing.T) {
	fs := NewFlights(1000)
	var leading atomic.Int32
	var wg sync.WaitGroup
	for i := range 400 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%7 == 0 {
				cancel()
			}
			f, leads := fs.Enter("a")
			if !leads {
				leads = f.Wait(ctx, nil) == Leads
			}
			if !leads {
				return
			}
			if n := leading.Add(1); n > 1 {
				t.Errorf("%d lead", n)
			}
			leading.Add(-1)
			if i%3 == 0 {
				f.Land(i%2 == 0)
			} else {
				f.HandOver()
			}
		})
	}
	wg.Wait()
	if fs.waiting != 0 || len(fs.flying) != 0 {
		t.Errorf("%d wait, %d fly", fs.waiting, len(fs.flying))
	}
}

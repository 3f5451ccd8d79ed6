package copies

import (
	"context"
	"sync"
	"time"
)

// Flights let requests for one thing wait for the first of them, which is under way to the site:
// collapsed requests, as RFC 9111 (section 4) calls them. Who leads may fail; then another one of
// those who wait leads, and the others wait on. It is safe for concurrent use.
type Flights struct {
	mu      sync.Mutex
	flying  map[string]*Flight
	waiting int
	most    int
}

// NewFlights returns flights for which at most so many requests wait, all together.
func NewFlights(most int) *Flights {
	return &Flights{flying: make(map[string]*Flight), most: most}
}

// A Flight is a request that is under way, and those who wait for it.
type Flight struct {
	of      *Flights
	key     string
	waiting int
	led     bool          // whether somebody leads
	over    bool          // whether it has ended
	kept    bool          // whether it has landed with a copy
	lead    chan struct{} // makes one of those who wait lead
	landed  chan struct{} // closed when it has
}

// An End is what the wait for a flight ended with.
type End uint8

// The ends.
const (
	// Landed: there is a copy now.
	Landed End = iota
	// Empty: the leader is done, and there is nothing to share.
	Empty
	// Leads: the leader has failed, and this request leads now.
	Leads
	// Gone: the client is, that waited.
	Gone
	// Late: it took too long.
	Late
)

// Enter joins the flight of a key, or begins it. Who leads must call either Land or HandOver, once;
// who does not must Wait. f is nil if too many wait already.
func (fs *Flights) Enter(key string) (f *Flight, leads bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f = fs.flying[key]
	if f == nil {
		f = &Flight{of: fs, key: key, led: true, lead: make(chan struct{}, 1), landed: make(chan struct{})}
		fs.flying[key] = f
		return f, true
	}
	if fs.waiting >= fs.most {
		return nil, false
	}
	fs.waiting++
	f.waiting++
	return f, false
}

// Wait waits for the leader of a flight that was entered, until the client is gone or it is late.
func (f *Flight) Wait(ctx context.Context, late <-chan time.Time) (end End) {
	select {
	case <-f.landed:
		end = Empty
		if f.kept { // not written any more
			end = Landed
		}
	case <-f.lead:
		end = Leads
	case <-ctx.Done():
		end = Gone
	case <-late:
		end = Late
	}
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.waiting--
	f.of.waiting--
	if end == Leads {
		f.led = true
	}
	f.forget()
	return end
}

// forget ends a flight that nobody leads or waits for. The lock is held.
func (f *Flight) forget() {
	if !f.led && f.waiting == 0 {
		f.end()
	}
}

func (f *Flight) end() {
	if !f.over {
		f.over = true
		delete(f.of.flying, f.key)
	}
}

// Land ends the flight. kept is set if there is a copy for those who wait.
func (f *Flight) Land(kept bool) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.led, f.kept = false, kept
	f.end()
	close(f.landed)
}

// Leave lets the next request lead a flight of its own, and not wait for this one, which is late.
func (f *Flight) Leave() {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.end()
}

// HandOver lets another one lead, if any waits: this one has failed.
func (f *Flight) HandOver() {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.led = false
	if f.waiting > 0 {
		f.lead <- struct{}{}
	}
	f.forget()
}

// Waiting is how many wait, all together.
func (fs *Flights) Waiting() int {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.waiting
}

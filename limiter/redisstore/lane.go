package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// fewTrips and mostTrips are between how many trips to a server are under way at once: one
	// more for each distancePerTrip that it is away, so that latency is not spent waiting.
	fewTrips, mostTrips = 4, 16
	distancePerTrip     = 100 * time.Microsecond
	// mostAsks is how many asks share a trip. As many take the server some 0.3 ms, in which it
	// answers nobody else.
	mostAsks = 128
	// mostWaiting is how many calls wait for a trip at most.
	mostWaiting = 1 << 14
)

// errCrowded is what becomes of a call that finds too many waiting before it.
var errCrowded = errors.New("too many decisions wait for the server")

// errNoTime is that of a call whose time was up before it could be taken along.
var errNoTime = fmt.Errorf("no trip in time: %w", context.DeadlineExceeded)

// A lane is the way of calls to one server. The first few go straight, each by a trip of its own.
// While as many trips are under way as there may be, calls wait, and each trip that ends is
// followed by one that takes along all that have come meanwhile. So it is the server's pace
// that makes batches: no call waits for others to come, and there is no timer.
//
// A call waits no longer than its caller does, whatever becomes of the trip that takes it along.
type lane struct {
	// carry does a trip: it answers all calls, however it ends.
	carry func(ctx context.Context, calls []*call)
	// few and most are between how many trips are under way at once.
	few, most int

	idle  sync.Pool // of calls
	terms terms

	mu       sync.Mutex
	trips    int // under way
	distance distance
	first    *call
	last     *call
	waiting  int // from first to last
}

// pass takes a call to the server and returns when it is answered, or when ctx is done: then the
// error is errLate, and the call is no longer the caller's. ctx has a deadline.
func (l *lane) pass(ctx context.Context, c *call) error {
	c.end, _ = ctx.Deadline()
	l.mu.Lock()
	if l.trips < l.width() {
		l.trips++
		l.mu.Unlock()
		return l.straight(ctx, c)
	}
	if l.waiting >= mostWaiting {
		l.mu.Unlock()
		return errCrowded
	}
	l.enqueue(c)
	l.mu.Unlock()
	return c.await(ctx)
}

// straight does a call's trip on its caller's own goroutine.
func (l *lane) straight(ctx context.Context, c *call) error {
	start := time.Since(dawn)
	c.state.Store(straight)
	c.alone[0] = c
	l.carry(ctx, c.alone[:])
	if others := l.board(nil, start); len(others) > 0 {
		go l.drive(others)
	}
	return c.err
}

// width returns how many trips may be under way. It is called with mu held.
func (l *lane) width() int {
	return min(max(l.few, int(l.distance.least()/distancePerTrip)), l.most)
}

// enqueue is called with mu held.
func (l *lane) enqueue(c *call) {
	if l.first == nil {
		l.first = c
	} else {
		l.last.next = c
	}
	l.last = c
	l.waiting++
}

// drive does one trip after the other until nobody waits.
func (l *lane) drive(calls []*call) {
	for len(calls) > 0 {
		// As long as the most patient of the callers waits.
		end := calls[0].end
		for _, c := range calls[1:] {
			if c.end.After(end) {
				end = c.end
			}
		}
		t := l.terms.begin(time.Until(end))
		start := time.Since(dawn)
		l.carry(t, calls)
		t.finish()
		calls = l.board(calls[:0], start)
	}
}

// board is called when a trip has ended, which began at start, counted from dawn. It appends the calls that
// share the next one; if there are none, there is a trip less.
func (l *lane) board(calls []*call, start time.Duration) []*call {
	took := time.Since(dawn) - start
	l.mu.Lock()
	defer l.mu.Unlock()
	l.distance.measured(took)
	if l.first == nil {
		l.trips--
		return calls
	}
	now, asks := time.Now(), 0
	for l.first != nil {
		c := l.first
		if len(calls) > 0 && asks+len(c.keys) > mostAsks {
			return calls
		}
		l.first, c.next = c.next, nil
		l.waiting--
		if c.abandoned() || !c.end.After(now) {
			// It would be charged in vain.
			c.reply(answer{}, errNoTime)
			continue
		}
		asks += len(c.keys)
		calls = append(calls, c)
	}
	if len(calls) == 0 {
		l.trips--
	}
	return calls
}

// A distance is how far away a server is, in time: as long as the fastest of the last trips took.
// All others tell as well how busy both ends are.
type distance struct {
	recent, before time.Duration // the least of two spans of trips
	trips          int           // in recent
}

// span is over how many trips a distance is measured.
const span = 256

func (d *distance) measured(took time.Duration) {
	if d.trips == span {
		d.before, d.trips = d.recent, 0
	}
	if d.trips == 0 || took < d.recent {
		d.recent = took
	}
	d.trips++
}

func (d *distance) least() time.Duration {
	if d.before == 0 {
		return d.recent
	}
	return min(d.recent, d.before)
}

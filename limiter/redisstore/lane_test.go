package redisstore

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A ferry is what a lane's trips come to in tests: each takes so long, and is noted down.
type ferry struct {
	takes time.Duration
	mu    sync.Mutex
	trips [][]int // the slots of the calls, by which tests tell them apart
	ended []error // the trip's context when it ended
}

func (f *ferry) carry(ctx context.Context, calls []*call) {
	var aboard []int
	for _, c := range calls {
		aboard = append(aboard, c.slot)
	}
	f.mu.Lock()
	f.trips = append(f.trips, aboard)
	f.mu.Unlock()
	<-time.After(f.takes)
	f.mu.Lock()
	f.ended = append(f.ended, ctx.Err())
	f.mu.Unlock()
	for _, c := range calls {
		c.reply(answer{asks: "answer"}, nil)
	}
}

// sail passes a call with so many asks, and returns how long it took and its error.
func (f *ferry) sail(l *lane, name, asks int, patience time.Duration) (time.Duration, error) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := l.newCall(make([]string, asks), name)
	err := l.pass(ctx, c)
	if err != errLate {
		c.recycle()
	}
	return time.Since(start), err
}

const tripTime = 10 * time.Millisecond

// crossing returns a lane with so many trips, and what carries its calls.
func crossing(trips int) (*lane, *ferry) {
	f := &ferry{takes: tripTime}
	return &lane{carry: f.carry, few: trips, most: trips}, f
}

// The first calls go at once and each by itself; those that come while as many trips are under way
// as there may be go together, in the order in which they came, when one of them ends.
func TestCrowdSharesTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, f := crossing(2)
		var wg sync.WaitGroup
		for i := range 302 {
			wg.Go(func() {
				took, err := f.sail(l, i, 1, time.Second)
				want := tripTime // for the first two, then two batches, then the rest
				switch {
				case i >= 2+2*mostAsks:
					want = 3 * tripTime
				case i >= 2:
					want = 2 * tripTime
				}
				if err != nil || took != want {
					t.Errorf("call %d took %s, want %s (%v)", i, took, want, err)
				}
			})
			synctest.Wait() // one after the other
		}
		wg.Wait()
		synctest.Wait()
		var sizes []int
		for _, trip := range f.trips {
			sizes = append(sizes, len(trip))
		}
		if want := []int{1, 1, mostAsks, mostAsks, 300 - 2*mostAsks}; !slices.Equal(sizes, want) {
			t.Errorf("trips of %v calls, want %v", sizes, want)
		}
		for _, trip := range f.trips {
			if !slices.IsSorted(trip) {
				t.Errorf("a trip in the order %v", trip)
			}
		}
		if l.trips != 0 || l.waiting != 0 || l.first != nil {
			t.Errorf("left: %d trips under way, %d calls waiting", l.trips, l.waiting)
		}
		// It is quiet again: calls go straight.
		if took, err := f.sail(l, 0, 1, time.Second); err != nil || took != tripTime {
			t.Errorf("a lone call took %s (%v)", took, err)
		}
	})
}

// A call that has more asks than a trip takes goes by itself, and those behind it wait.
func TestLargeCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, f := crossing(1)
		var wg sync.WaitGroup
		for i, asks := range []int{1, 1, 2 * mostAsks, mostAsks - 1, 1, 1} {
			wg.Go(func() {
				if _, err := f.sail(l, i, asks, time.Second); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		want := [][]int{{0}, {1}, {2}, {3, 4}, {5}}
		if !slices.EqualFunc(f.trips, want, slices.Equal[[]int]) {
			t.Errorf("trips of %v, want %v", f.trips, want)
		}
	})
}

// A caller leaves when its time is up, whether its call waits or is under way, and nobody who came
// with it is any worse for that: the trip has as long as the most patient one.
func TestImpatientCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, f := crossing(1)
		var wg sync.WaitGroup
		for i, c := range []struct {
			patience, took time.Duration
			late           bool
		}{
			{time.Second, tripTime, false},
			{tripTime / 2, tripTime / 2, true},         // while it waits
			{tripTime * 3 / 2, tripTime * 3 / 2, true}, // on the way
			{time.Second, 2 * tripTime, false},
			{tripTime / 2, tripTime / 2, true},
			{2*tripTime + 1, 2 * tripTime, false},
		} {
			wg.Go(func() {
				took, err := f.sail(l, i, 1, c.patience)
				if took != c.took || c.late != (err == errLate) || !c.late && err != nil {
					t.Errorf("call %d took %s, want %s (%v)", i, took, c.took, err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		synctest.Wait()
		if want := [][]int{{0}, {2, 3, 5}}; !slices.EqualFunc(f.trips, want, slices.Equal[[]int]) {
			t.Errorf("trips of %v, want %v: who has left is not taken along", f.trips, want)
		}
		for _, err := range f.ended {
			if err != nil {
				t.Errorf("a trip had no time left: %v", err)
			}
		}
	})
}

// Everybody leaves in time while no trip ends, and nothing stays behind when the trips do.
func TestServerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, f := crossing(4)
		f.takes = time.Hour
		var wg sync.WaitGroup
		var late atomic.Int64
		for i := range 1000 {
			wg.Go(func() {
				if took, err := f.sail(l, i, 1, time.Second); err == errLate && took == time.Second {
					late.Add(1)
				}
			})
		}
		<-time.After(2 * time.Second)
		if n := late.Load(); n != 996 {
			t.Errorf("%d of 996 that waited left in time", n)
		}
		wg.Wait()
		synctest.Wait()
		if len(f.trips) != 4 || l.trips != 0 || l.waiting != 0 {
			t.Errorf("%d trips, of which %d are under way, %d calls waiting", len(f.trips), l.trips, l.waiting)
		}
	})
}

// Beyond a number of calls nobody waits: those would be too late anyway.
func TestCrowdIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, f := crossing(1)
		var wg sync.WaitGroup
		var crowded atomic.Int64
		for i := range mostWaiting + 11 {
			wg.Go(func() {
				switch took, err := f.sail(l, i, 1, time.Hour); {
				case err == errCrowded && took == 0:
					crowded.Add(1)
				case err != nil:
					t.Error(err, took)
				}
			})
		}
		wg.Wait()
		if n := crowded.Load(); n != 10 {
			t.Errorf("%d were turned away, want 10", n)
		}
	})
}

// The further away a server is, the more trips are under way at once, within bounds. How busy it
// is does not matter.
func TestTripsByDistance(t *testing.T) {
	for _, c := range []struct {
		distance time.Duration
		want     int
	}{
		{20 * time.Microsecond, fewTrips},
		{400 * time.Microsecond, 4},
		{1100 * time.Microsecond, 11},
		{time.Second, mostTrips},
	} {
		l := lane{few: fewTrips, most: mostTrips}
		if n := l.width(); n != fewTrips {
			t.Errorf("%d trips as long as nothing is known", n)
		}
		for i := range 10 * span {
			took := 5 * time.Second
			if i%100 == 0 {
				took = c.distance
			}
			l.distance.measured(took)
		}
		if n := l.width(); n != c.want {
			t.Errorf("%d trips to a server %s away, want %d", n, c.distance, c.want)
		}
	}
	// It moves away, and comes back.
	var d distance
	for _, at := range []time.Duration{3, 9, 2} {
		for range 2 * span {
			d.measured(at)
		}
		if d.least() != at {
			t.Errorf("measured %d, want %d", d.least(), at)
		}
	}
}

// A term is as good as any other context, and is used again without garbage.
func TestTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pool terms
		for range 3 {
			x := pool.begin(time.Second)
			if end, ok := x.Deadline(); !ok || !end.Equal(time.Now().Add(time.Second)) {
				t.Errorf("ends at %s", end)
			}
			<-time.After(time.Second - 1)
			if x.Err() != nil {
				t.Error("over too early")
			}
			x.finish()
		}
		x := pool.begin(time.Second)
		<-x.Done()
		if x.Err() != context.DeadlineExceeded {
			t.Errorf("over: %v", x.Err())
		}
		x.finish()
		if x := pool.begin(time.Second); x.Err() != nil {
			t.Error("over from the beginning")
		}
	})
}

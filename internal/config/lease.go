package config

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// LeaseTTL is after what time a place of in_flight is free again if the node that holds it
// has died. It is a variable for the TestMain of a whole-program test, which sets it
// before Caddy starts.
var LeaseTTL = 30 * time.Second

const (
	// leaseTicks is how often in a LeaseTTL, at most, what is late is given back, renewTicks how many of
	// these times pass until leases are looked through for those to renew.
	leaseTicks = 300
	renewTicks = 10
	// leaseBatch is the most leases that one call renews or gives back.
	leaseBatch = 256
	// mostEnded is the most leases that wait to be given back. Beyond, and while the
	// store is away, they are left to end by themselves.
	mostEnded = 10_000
	// mostStrays is how many of them may be leases of which it is not known whether they are held.
	mostStrays = mostEnded / 2
	// mostFailures is after how many failed calls the store is left alone until the next tick.
	// One says little: in a cluster that has lost a node it may be about a few leases.
	mostFailures = 2
	// leaseFarewell is the longest that giving leases back delays the process's end.
	leaseFarewell = time.Second
)

// A leaseStore is a store that keeps states itself.
type leaseStore interface {
	Release(ctx context.Context, asks []limiter.Ask) error
	limiter.Renewer
}

// A lessor keeps the leases that requests hold in one store: it renews them in batches for
// as long as the requests last, and gives them back afterwards, off their path.
//
// It belongs to the store and not to a configuration, so that a reload changes nothing
// for requests that are under way. For the same reason its goroutine is no App's: it runs
// while there are leases, and a store that no configuration uses any more is closed
// when the last of them has ended.
type lessor struct {
	store leaseStore
	// near is set if the store is in this process: leases are then given back at
	// once, and not by the goroutine.
	near bool

	mu      sync.Mutex
	held    map[*lease]struct{}
	ended   []*lease // to be given back at once
	late    []*lease // to be given back when there is time: somebody tried, and failed
	running bool
	shut    func() error // closes the store when the goroutine ends

	// What requests that find no place may wait for, see lease_return.go.
	number  uint64                // of the lease that ended last
	through uint64                // all up to this one are given back, or failed
	last    map[leaseOwner]uint64 // the number of the last one to be given back
	round   chan struct{}         // closed when through has grown

	wake chan struct{}
}

// A lease is one request's place in one state.
type lease struct {
	ask    limiter.Ask
	until  time.Time // when the store gives it up, as far as is known here
	number uint64    // since it has ended
}

func newLessor(s leaseStore, near bool) *lessor {
	return &lessor{
		store: s, near: near,
		held: make(map[*lease]struct{}),
		last: make(map[leaseOwner]uint64), round: make(chan struct{}),
		wake: make(chan struct{}, 1),
	}
}

// leaseName returns a name for a request's leases, which no other request of any node has.
func leaseName() string {
	var name [8]byte
	for i, v := 0, rand.Uint64(); i < len(name); i, v = i+1, v>>8 {
		name[i] = byte(v)
	}
	return string(name[:])
}

// hold keeps a lease that the store has just granted, until end.
func (l *lessor) hold(ask limiter.Ask) *lease {
	held := &lease{ask: ask, until: time.Now().Add(LeaseTTL)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[held] = struct{}{}
	l.start()
	return held
}

// end gives a lease back.
func (l *lessor) end(held *lease) {
	l.mu.Lock()
	delete(l.held, held)
	if !l.near {
		l.enqueue(held)
	}
	l.mu.Unlock()
	if l.near {
		// A lease that could not be given back ends by itself.
		_ = l.store.Release(context.Background(), []limiter.Ask{held.ask})
	}
}

// stray gives a lease back that the store may have granted, though no answer came.
func (l *lessor) stray(ask limiter.Ask) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.late) < mostStrays {
		l.late = append(l.late, &lease{ask: ask, until: time.Now().Add(LeaseTTL)})
	}
	l.start()
}

// enqueue has a lease given back by the goroutine. l.mu is held.
func (l *lessor) enqueue(ended *lease) {
	if len(l.ended) < mostEnded {
		l.number++
		ended.number = l.number
		l.last[ownerOf(&ended.ask)] = l.number
		l.ended = append(l.ended, ended)
	}
	l.start()
	l.nudge()
}

// nudge has the goroutine give back what has ended.
func (l *lessor) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// start starts the goroutine unless it runs. l.mu is held.
func (l *lessor) start() {
	if !l.running {
		l.running = true
		go l.run()
	}
}

// run works until there is nothing left to do. What takes long, because it failed before or is
// a lot, is done beside what requests may be waiting for.
func (l *lessor) run() {
	tick := time.NewTimer(nextTick())
	defer tick.Stop()
	tending, tended := false, make(chan struct{})
	for n := 1; ; {
		select {
		case <-l.wake:
			l.giveBack()
		case <-tick.C:
			tick.Reset(nextTick())
			if tending {
				continue
			}
			tending = true
			renew := n%renewTicks == 0
			n++
			go func() {
				l.giveBackLate()
				if renew {
					l.renew()
				}
				tended <- struct{}{}
			}()
		case <-tended:
			tending = false
			if l.rest() {
				return
			}
		}
	}
}

// nextTick returns how long it is to the next tick. Part of it is random, so that many nodes that have
// lost a store together do not all come back to it at the same moments.
func nextTick() time.Duration {
	shortest := LeaseTTL / leaseTicks
	return shortest + rand.N(shortest/2)
}

// rest ends the goroutine's work if there is none, and closes the store if it is time.
func (l *lessor) rest() bool {
	l.mu.Lock()
	if len(l.held) > 0 || len(l.ended) > 0 || len(l.late) > 0 {
		l.mu.Unlock()
		return false
	}
	l.running = false
	shut := l.shut
	l.shut = nil
	l.mu.Unlock()
	if shut != nil {
		_ = shut() // nobody is left who would want to know
	}
	return true
}

// close closes the store by shut, as soon as no request holds a lease in it.
func (l *lessor) close(shut func() error) error {
	l.mu.Lock()
	if l.running {
		l.shut = shut
		l.mu.Unlock()
		return nil
	}
	l.mu.Unlock()
	return shut()
}

// renew renews the leases of which a third is over. What fails may be about a few of them, as in
// a cluster that has lost a node, and the others must not be lost over it.
func (l *lessor) renew() {
	soon := time.Now().Add(LeaseTTL * 2 / 3)
	l.mu.Lock()
	var due []*lease
	for held := range l.held {
		if !held.until.After(soon) {
			due = append(due, held)
		}
	}
	l.mu.Unlock()
	byState(due)
	for batch := range slices.Chunk(due, leaseBatch) {
		until := time.Now().Add(LeaseTTL)
		if err := l.store.Renew(context.Background(), asksOf(batch)); err != nil {
			continue
		}
		if over := l.renewed(batch, until); len(over) > 0 {
			_ = l.store.Release(context.Background(), asksOf(over))
		}
	}
}

// renewed notes that leases were renewed. It returns those that were given back meanwhile,
// which renewing them may have taken again.
func (l *lessor) renewed(batch []*lease, until time.Time) (over []*lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range batch {
		if _, ok := l.held[one]; ok {
			one.until = until
		} else {
			over = append(over, one)
		}
	}
	return over
}

// quit gives everything back, since the process ends and all requests with it. What takes
// too long is left to end by itself.
func (l *lessor) quit() {
	l.mu.Lock()
	for one := range l.held {
		l.enqueue(one)
	}
	clear(l.held)
	number, waiting := l.number, len(l.last) > 0
	l.mu.Unlock()
	if waiting {
		l.await(number, leaseFarewell)
	}
}

// byState puts leases of one state side by side, which stores like best.
func byState(leases []*lease) {
	slices.SortFunc(leases, func(a, b *lease) int {
		return cmp.Or(cmp.Compare(a.ask.Limit.Zone, b.ask.Limit.Zone), cmp.Compare(a.ask.Key, b.ask.Key))
	})
}

func asksOf(leases []*lease) []limiter.Ask {
	asks := make([]limiter.Ask, len(leases))
	for i, one := range leases {
		asks[i] = one.ask
	}
	return asks
}

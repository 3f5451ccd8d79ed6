package observe

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
)

// RecentSize is how many requests the process's sample holds.
const RecentSize = 10_000

// recentSpan is how far back the sample reaches at least, under load: it takes no more than
// RecentSize requests in that time, and while fewer come it takes all of them.
const recentSpan = 5 * time.Minute

// Recents is the sample of all configurations of the process: a reload must not empty it.
var Recents = NewRecent(RecentSize)

// Recent is a sample of the requests that came lately, so that somebody who is about to make
// a rule can see what it would have hit. It holds what rules look at, short of what is
// secret or too long, and is bounded whatever clients send.
//
// While few requests come it takes every one, and under load one of so many that those of
// the last five minutes have room; what it takes says for how many it stands. No
// request waits for another, or for whoever reads the sample. It is safe for concurrent use.
type Recent struct {
	slots []slot
	next  atomic.Uint64 // how many were taken
	pace  pace
}

// NewRecent returns a sample of at most so many requests.
func NewRecent(size int) *Recent {
	return &Recent{slots: make([]slot, size), pace: pace{budget: max(1, int64(size)*int64(time.Second)/int64(recentSpan))}}
}

// A slot holds one request, until another takes its place. Its room is made once, when it is
// used first.
type slot struct {
	mu     sync.Mutex
	turn   uint64 // whose it is; 0 while it is empty
	at     int64
	weight int64
	source blocklist.Source
	client netip.Addr
	status int
	page   page
}

// A Mark is a request's place in the sample; the zero Mark that of one which was not taken.
type Mark struct {
	slot *slot
	turn uint64
}

// Taken reports whether the request is part of the sample, and [Mark.End] of use.
func (m Mark) Taken() bool { return m.slot != nil }

// Begin offers a request to the sample, before anything has changed it.
func (s *Recent) Begin(r *blocklist.Request, now time.Time) Mark {
	weight := s.Pick(now)
	if weight == 0 {
		return Mark{}
	}
	return s.Take(r, now, weight)
}

// Pick returns for how many requests the next one stands, if it is to be taken; 0 if it is
// not.
func (s *Recent) Pick(now time.Time) int64 { return s.pace.pick(now) }

// Take takes a request that was picked.
func (s *Recent) Take(r *blocklist.Request, now time.Time, weight int64) Mark {
	s.pace.took(now, weight)
	turn := s.next.Add(1)
	at := &s.slots[turn%uint64(len(s.slots))]
	if !at.mu.TryLock() {
		return Mark{} // somebody reads it
	}
	at.turn, at.at, at.weight = turn, now.UnixNano(), weight
	at.source, at.client, at.status = r.Source, r.Client, 0
	at.page.write(r)
	at.mu.Unlock()
	return Mark{at, turn}
}

// End adds what became of the request: the status of its answer, 0 if it is not known, and
// who was signed in, if anybody was.
func (m Mark) End(status int, user string) {
	if m.slot == nil {
		return
	}
	m.slot.mu.Lock()
	defer m.slot.mu.Unlock()
	if m.slot.turn == m.turn {
		m.slot.status = status
		m.slot.page.sign(user)
	}
}

// A Seen is one request of the sample.
type Seen struct {
	// Request as rules look at it, without what the sample does not keep.
	Request blocklist.Request
	// At is when it came.
	At time.Time
	// Weight is for how many requests it stands, at least 1.
	Weight int64
	// Status of the answer; 0 if it is not known, or not yet.
	Status int
	// User who was signed in; empty if nobody was, or is not known yet.
	User string
	// Cut says that some text was too long to be kept whole.
	Cut bool
}

// All returns copies of the requests in the sample, in no order.
func (s *Recent) All() []Seen {
	var all []Seen
	for i := range s.slots {
		if seen, ok := s.slots[i].read(); ok {
			all = append(all, seen)
		}
	}
	return all
}

func (s *slot) read() (Seen, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == 0 {
		return Seen{}, false
	}
	seen := Seen{At: time.Unix(0, s.at), Weight: s.weight, Status: s.status, Cut: s.page.cut}
	seen.Request, seen.User = s.page.read()
	seen.Request.Source, seen.Request.Client = s.source, s.client
	return seen, true
}

// A pace takes one of so many requests that about budget are taken in a second.
type pace struct {
	budget int64

	every  atomic.Int64 // one of so many is taken; 0 is 1
	second atomic.Int64 // in which one was taken last
	taken  atomic.Int64 // how many in that second
	came   atomic.Int64 // and for how many they stand
}

// pick returns for how many requests this one stands; 0 if it is passed over. Each second in
// which none was taken halves how many are passed over: the flood is over.
func (p *pace) pick(now time.Time) int64 {
	every := p.every.Load()
	if every <= 1 {
		return 1
	}
	if idle := now.Unix() - p.second.Load(); idle > 1 {
		every = max(1, every>>min(idle-1, 63))
	}
	if rand.Int64N(every) != 0 {
		return 0
	}
	return every
}

// patience is how many times its budget a second may bring before the pace is changed: a
// page with its pictures is no load yet.
const patience = 4

// took counts one that was taken. A second that brought too many makes those of the next one
// rarer, and so does one that is about to: a flood must not flush the sample before
// the second is over. Of what several count at once some may be lost: it is but a pace.
func (p *pace) took(now time.Time, weight int64) {
	second, last := now.Unix(), p.second.Load()
	if second != last && p.second.CompareAndSwap(last, second) {
		came := p.came.Swap(weight)
		p.taken.Store(1)
		if second == last+1 {
			weight = max(1, came/p.budget)
		}
		p.every.Store(weight)
		return
	}
	p.came.Add(weight)
	if p.taken.Add(1)%(patience*p.budget) == 0 {
		p.every.CompareAndSwap(weight, 2*weight)
	}
}

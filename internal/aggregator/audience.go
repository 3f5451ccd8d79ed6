package aggregator

import (
	"hash/maphash"
	"sync"
	"time"
)

const (
	// audienceSpan is for how long the largest number counts that an aggregator has said.
	audienceSpan = 24 * time.Hour
	// mostAudiences is of how many pairs of aggregator and feed it is remembered.
	mostAudiences = 10_000
)

// An Audience remembers how many subscribers aggregators have for feeds. One aggregator may
// come from several addresses and under several feed-ids of its own, with the number of the
// readers of each, or of all of them each time. Nothing is added up, since that would count the
// same readers again: the largest number that was said within a day counts. It is safe
// for concurrent use.
type Audience struct {
	seed maphash.Seed

	mu   sync.Mutex
	said map[uint64]said
}

// said is a number of subscribers, and when an aggregator said it last.
type said struct {
	n  int64
	at time.Time
}

// NewAudience returns an empty audience.
func NewAudience() *Audience {
	return &Audience{seed: maphash.MakeSeed(), said: make(map[uint64]said)}
}

// Largest notes that the aggregator of that name says a feed has n subscribers, and returns the
// number that counts. 0 is what says nothing.
func (a *Audience) Largest(name string, feed []byte, n int64, now time.Time) int64 {
	var h maphash.Hash
	h.SetSeed(a.seed)
	h.WriteString(name)
	h.WriteByte(0)
	h.Write(feed)
	key := h.Sum64()
	a.mu.Lock()
	defer a.mu.Unlock()
	last, known := a.said[key]
	if last.over(now) {
		last = said{}
	}
	if n == 0 || n < last.n {
		return last.n
	}
	if !known {
		makeRoom(a.said, mostAudiences, func(s said) bool { return s.over(now) })
	}
	a.said[key] = said{n, now}
	return n
}

func (s said) over(now time.Time) bool { return now.Sub(s.at) >= audienceSpan }

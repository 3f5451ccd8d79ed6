// Package people estimates how many people stand behind an address, so that an office or a
// whole town behind one proxy is not taken for one client that hammers.
//
// An [Estimator] is told who was seen from which address; an [Allowance] turns what it
// then says into a factor by which that address is allowed more.
package people

import (
	"cmp"
	"context"
	"hash/maphash"
	"sync"
	"time"
)

// Defaults and bounds of an [Estimator].
const (
	// DefaultWindow is for how long somebody who was seen counts.
	DefaultWindow = 24 * time.Hour
	// DefaultMaxAddresses is how many addresses are kept.
	DefaultMaxAddresses = 100_000
	// generations is how many parts a window has. A part is forgotten as a whole, so that
	// somebody counts for at least 3/4 of a window.
	generations = 4
	// maxNews is how many sightings wait to be shared at most. Those beyond it are
	// shared when they occur again.
	maxNews = 10_000
	// ShareInterval is how often sightings are shared.
	ShareInterval = 5 * time.Second
	// refreshAfter is after what time the shared number of an address that is still seen is
	// read again: others may have seen more.
	refreshAfter = 5 * time.Minute
)

// Seen is how many there were behind an address in the window.
type Seen struct {
	// Users who had signed in.
	Users int64
	// Browsers are distinct pairs of user agent and accepted languages, of those who
	// had not. Clients choose what they send: they may pretend to be many.
	Browsers int64
}

// A Kind is what somebody was told from others by.
type Kind uint8

// The kinds.
const (
	User Kind = iota
	Browser
)

// A Sharer counts what several processes saw.
type Sharer interface {
	// CountPeople adds people of a kind to those that were seen from an address during the
	// last of several generations, and returns how many distinct ones there were in all of
	// them together. What it keeps may be forgotten after the time keep.
	CountPeople(ctx context.Context, address string, kind Kind, generations []int64, people []string, keep time.Duration) (int64, error)
}

// Options of an [Estimator]. The zero value has all defaults and counts for itself alone.
type Options struct {
	// Window is for how long somebody who was seen counts; default [DefaultWindow].
	Window time.Duration
	// MaxAddresses bounds what is kept, at most some 16 KB for each address; default
	// [DefaultMaxAddresses]. Beyond it those of an older generation go first.
	MaxAddresses int
	// Sharer, if not nil, counts together with other processes. While it cannot be
	// reached, what this one saw counts.
	Sharer Sharer
	// Told, if not nil, hears when the sharer begins to fail, and with nil when it is
	// back.
	Told func(err error)
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// An Estimator counts distinct people by address. Its methods but Run never wait for
// anything but each other, and allocate only for what is new. It is safe for concurrent use.
type Estimator struct {
	o    Options
	seed maphash.Seed

	mu        sync.Mutex
	addresses map[string]*address
	news      map[sighting]struct{}
	failing   bool
}

// An address is what is known of one.
type address struct {
	kinds [2]counted
	seen  int64 // the generation in which somebody was seen last
}

// counted is the people of one kind.
type counted struct {
	parts  [generations]sketch // by generation modulo generations
	newest int64               // the generation of the newest part
	own    int64               // how many there are in all parts
	shared int64               // what the sharer said last
	asked  time.Time           // and when
}

// A sighting is somebody who may have to be told to the sharer.
type sighting struct {
	address string
	kind    Kind
	person  string
}

// New returns an estimator that has seen nobody.
func New(o Options) *Estimator {
	o.Window = cmp.Or(o.Window, DefaultWindow)
	o.MaxAddresses = cmp.Or(o.MaxAddresses, DefaultMaxAddresses)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Estimator{
		o: o, seed: maphash.MakeSeed(),
		addresses: make(map[string]*address),
		news:      make(map[sighting]struct{}),
	}
}

// generation returns the number of the part of a window that now belongs to.
func (e *Estimator) generation(now time.Time) int64 {
	return now.UnixNano() / int64(e.o.Window/generations)
}

// See notes that somebody was seen from an address: a user by name, a browser by what it
// sent. Each address counts for itself, whatever text names it.
func (e *Estimator) See(from string, kind Kind, person string) {
	now := e.o.Now()
	generation := e.generation(now)
	hash := maphash.String(e.seed, person)

	e.mu.Lock()
	defer e.mu.Unlock()
	a := e.addresses[from]
	if a == nil {
		if len(e.addresses) >= e.o.MaxAddresses {
			e.makeRoom(generation)
		}
		a = new(address)
		e.addresses[from] = a
	}
	a.seen = generation
	c := &a.kinds[kind]
	c.turn(generation)
	known, changed := c.parts[generation%generations].add(hash)
	if changed {
		c.own = c.total()
	}
	if e.o.Sharer == nil || known && now.Sub(c.asked) < refreshAfter || len(e.news) >= maxNews {
		return
	}
	e.news[sighting{from, kind, person}] = struct{}{}
}

// Seen says who was seen from an address.
func (e *Estimator) Seen(from string) Seen {
	generation := e.generation(e.o.Now())
	e.mu.Lock()
	defer e.mu.Unlock()
	a := e.addresses[from]
	if a == nil {
		return Seen{}
	}
	for kind := range a.kinds {
		a.kinds[kind].turn(generation)
	}
	return Seen{Users: a.kinds[User].known(), Browsers: a.kinds[Browser].known()}
}

// turn forgets the parts that have left the window.
func (c *counted) turn(generation int64) {
	if generation == c.newest {
		return
	}
	// A clock that was set back stays in the newest part's place until it has caught up: a
	// generation is then younger than it seems, which does no harm.
	first := max(c.newest+1, generation-generations+1)
	for g := first; g <= generation; g++ {
		c.parts[g%generations] = nil
	}
	if generation > c.newest {
		c.newest = generation
		c.own, c.shared = c.total(), 0
		c.asked = time.Time{}
	}
}

// total counts all parts together.
func (c *counted) total() int64 {
	var room [generations * sketchSize]uint64
	return merge(room[:0], c.parts[:]...).count()
}

// known is the better of what was seen here and by all.
func (c *counted) known() int64 { return max(c.own, c.shared) }

// makeRoom forgets addresses: all that were not seen in this generation, and if all were, a
// hundredth of them, whichever.
func (e *Estimator) makeRoom(generation int64) {
	for from, a := range e.addresses {
		if a.seen < generation {
			delete(e.addresses, from)
		}
	}
	for from := range e.addresses {
		if len(e.addresses) <= e.o.MaxAddresses-max(1, e.o.MaxAddresses/100) {
			return
		}
		delete(e.addresses, from)
	}
}

// Len returns how many addresses are kept.
func (e *Estimator) Len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.addresses)
}

package copies

import (
	"container/list"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// largest is what part of a shelf one copy may take.
	largest = 4
	// variants is how many copies there are of one address at most: by what clients accept.
	variants = 8
)

// A Shelf holds copies by the keys of their addresses: of one address several, as clients accept
// different codings. They take a bounded number of bytes, and those that were not asked for longest
// make room for others. It is safe for concurrent use.
type Shelf struct {
	mu      sync.Mutex
	most    int64
	held    int64 // bytes of copies and marks
	taken   int64 // bytes of recordings
	entries map[string]*list.Element
	order   *list.List // of *entry, the one that was asked for last in front
}

// An entry is what there is under one key.
type entry struct {
	key       string
	size      int64
	copies    []*Copy
	alone     time.Time  // until when nobody shares what is answered
	recording *Recording // that will be kept, nil if there is none
}

// NewShelf returns an empty shelf for so many bytes. A copy has a quarter of them at most.
func NewShelf(most int64) *Shelf {
	return &Shelf{most: most, entries: make(map[string]*list.Element), order: list.New()}
}

// SetMost changes how many bytes there may be.
func (s *Shelf) SetMost(most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = most
	s.trim()
}

// Held is how many bytes there are, with those of recordings.
func (s *Shelf) Held() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held + s.taken
}

// Find returns a copy of what stands under a key that a client may be given who asks with this
// header.
func (s *Shelf) Find(key string, accept http.Header, now time.Time) (c Copy, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.look(key, now)
	if e == nil {
		return c, false
	}
	best := -1
	for i, each := range e.copies {
		// The shorter one, if there is a choice.
		if each.suits(accept) && (best < 0 || len(each.Body) < len(e.copies[best].Body)) {
			best = i
		}
	}
	if best < 0 {
		return c, false
	}
	return *e.copies[best], true
}

// Alone reports whether it is known that what is answered under a key is not shared.
func (s *Shelf) Alone(key string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.look(key, now)
	return e != nil && now.Before(e.alone)
}

// LeaveAlone notes that what is answered under a key is not shared until then, so that nobody has
// to wait for it in vain.
func (s *Shelf) LeaveAlone(key string, until, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.look(key, now)
	if e == nil {
		e = s.add(key)
	}
	e.alone = until
	s.trim()
}

// Confirm notes that the site has said, by an answer with this header, that copies still hold: those under the
// key that it means. It reports whether there are any.
func (s *Shelf) Confirm(key string, h http.Header, now, until time.Time, meant func(c *Copy) bool) (some bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.look(key, now)
	if e == nil {
		return false
	}
	for _, c := range e.copies {
		if meant(c) {
			some = true
			if age := aged(h); c.born().Before(now.Add(-age)) {
				c.At, c.Until, c.aged = now, until, age
			}
		}
	}
	return some
}

// Forget drops the copies under a key, which the site no longer gives to everybody: it has said so by an answer
// with this header. Those that are newer than an answer of a cache stay.
func (s *Shelf) Forget(key string, h http.Header, now time.Time) {
	age := aged(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.entries[key]; at != nil {
		s.drop(at.Value.(*entry), func(c *Copy) bool { return age == 0 || !c.born().After(now.Add(-age)) })
	}
}

// look returns the entry of a key, without copies that are over, as the one that was asked for
// last; nil if there is none. The lock is held.
func (s *Shelf) look(key string, now time.Time) *entry {
	at := s.entries[key]
	if at == nil {
		return nil
	}
	s.order.MoveToFront(at)
	e := at.Value.(*entry)
	s.drop(e, func(c *Copy) bool { return !now.Before(c.Until) })
	return e
}

// add makes the entry of a key.
func (s *Shelf) add(key string) *entry {
	e := &entry{key: key, size: int64(len(key)) + overhead}
	s.entries[key] = s.order.PushFront(e)
	s.held += e.size
	return e
}

// drop takes copies out of an entry.
func (s *Shelf) drop(e *entry, out func(c *Copy) bool) {
	kept := e.copies[:0]
	for _, c := range e.copies {
		if out(c) {
			s.grow(e, -c.size())
		} else {
			kept = append(kept, c)
		}
	}
	clear(e.copies[len(kept):])
	e.copies = kept
}

func (s *Shelf) grow(e *entry, by int64) {
	e.size += by
	s.held += by
}

// outdated reports whether an answer is older than a copy in whose place, or beside which, it would be kept: a
// cache on the way lags behind others, or the answer was overtaken.
func (s *Shelf) outdated(key string, c *Copy, now time.Time) bool {
	e := s.look(key, now)
	return e != nil && slices.ContainsFunc(e.copies, func(old *Copy) bool {
		return (old.like(c) || c.modified.Before(old.modified)) && c.born().Before(old.born())
	})
}

// like reports whether two copies are for the same clients.
func (c *Copy) like(other *Copy) bool {
	return c.coding == other.coding && c.byAccept == other.byAccept && c.accept == other.accept
}

// put keeps a copy in the place of what it follows: another of its kind, and what was modified
// before it was.
func (s *Shelf) put(key string, c *Copy) {
	at := s.entries[key]
	var e *entry
	if at == nil {
		e = s.add(key)
	} else {
		e = at.Value.(*entry)
		s.order.MoveToFront(at)
	}
	s.drop(e, func(old *Copy) bool {
		return old.like(c) ||
			old.modified.Before(c.modified) && !old.modified.IsZero()
	})
	if len(e.copies) == variants {
		last := e.copies[variants-1]
		s.drop(e, func(old *Copy) bool { return old == last })
	}
	e.copies = append([]*Copy{c}, e.copies...)
	e.alone = time.Time{}
	s.grow(e, c.size())
	s.trim()
}

// trim makes room until all fits.
func (s *Shelf) trim() {
	for s.held+s.taken > s.most {
		last := s.order.Back()
		if last == nil {
			return
		}
		e := s.order.Remove(last).(*entry)
		delete(s.entries, e.key)
		s.held -= e.size
	}
}

package config

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/limiter"
)

// maxHeld is the most bans that a process holds by itself: dry runs, and those that the shared
// list does not have yet. Beyond it those that end first go.
const maxHeld = 100_000

// A subject is who is banned: a key, in clear, of a zone.
type subject struct{ zone, key string }

// A heldBan is a ban that this process enforces by itself.
type heldBan struct {
	subject
	ban   *blocklist.Ban
	dry   bool           // nobody else is told
	limit *limiter.Limit // what is still counted of the key; nil if nothing is
	// version of the shared list that has the ban, 0 while none is known to.
	version uint64

	id uint64 // which of the process's it is
}

// heldBans are the bans that a process holds, over reloads. It is safe for concurrent use.
type heldBans struct {
	n    atomic.Int64
	mu   sync.RWMutex
	bans map[subject]*heldBan
	ids  uint64
	most int // that there may be; 0 stands for maxHeld
}

// any reports whether there are any, which costs next to nothing.
func (s *heldBans) any() bool { return s.n.Load() > 0 }

// find returns a subject's ban, also one that is over.
func (s *heldBans) find(who subject) (heldBan, bool) {
	if !s.any() {
		return heldBan{}, false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if h := s.bans[who]; h != nil {
		return *h, true
	}
	return heldBan{}, false
}

// put holds a ban in place of the subject's last one.
func (s *heldBans) put(h heldBan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bans == nil {
		s.bans = make(map[subject]*heldBan)
	}
	if s.bans[h.subject] == nil && len(s.bans) >= s.bound() {
		s.makeRoom()
	}
	if old := s.bans[h.subject]; old != nil && h.limit == nil {
		h.limit = old.limit // nobody has forgotten it yet
	}
	s.ids++
	h.id = s.ids
	s.bans[h.subject] = &h
	s.n.Store(int64(len(s.bans)))
}

// makeRoom lets those go that end first, a hundredth of them at a time.
func (s *heldBans) makeRoom() {
	all := slices.Collect(maps.Values(s.bans))
	slices.SortFunc(all, func(a, b *heldBan) int { return a.ban.Until.Compare(b.ban.Until) })
	for _, h := range all[:max(1, s.bound()/100)] {
		delete(s.bans, h.subject)
	}
}

func (s *heldBans) bound() int { return cmp.Or(s.most, maxHeld) }

// change calls do with each ban that it has not been let go of meanwhile, until do returns
// false, and lets go of those that do says to.
func (s *heldBans) change(do func(h *heldBan) (keep, more bool)) {
	if !s.any() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for who, h := range s.bans {
		keep, more := do(h)
		if !keep {
			delete(s.bans, who)
		}
		if !more {
			break
		}
	}
	s.n.Store(int64(len(s.bans)))
}

// forget lets those go that nobody has to remember.
func (s *heldBans) forget(now time.Time) {
	s.change(func(h *heldBan) (keep, more bool) { return !h.ban.Forgotten(now), true })
}

// remove lets one ban go, unless its subject has another one by now.
func (s *heldBans) remove(gone heldBan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.bans[gone.subject]; h != nil && h.id == gone.id {
		delete(s.bans, gone.subject)
		s.n.Store(int64(len(s.bans)))
	}
}

// all lists the bans.
func (s *heldBans) all() (all []heldBan) {
	s.change(func(h *heldBan) (keep, more bool) {
		all = append(all, *h)
		return true, true
	})
	return all
}

// unreset lists the bans of whose subjects something is counted, once.
func (s *heldBans) unreset() (found []heldBan) {
	s.change(func(h *heldBan) (keep, more bool) {
		if h.limit != nil {
			found = append(found, *h)
			h.limit = nil
		}
		return true, true
	})
	return found
}

// unshared lists some of the bans that are on no list yet. Those whose keys have no name yet
// are given it, if there is one by now.
func (s *heldBans) unshared(most int, name func(key string) (string, bool)) (found []heldBan) {
	s.change(func(h *heldBan) (keep, more bool) {
		if h.dry || h.version != 0 {
			return true, true
		}
		if h.ban.Key == "" {
			text, ok := name(h.key)
			if !ok {
				return true, true
			}
			named := *h.ban
			named.Key = text
			h.ban = &named
		}
		found = append(found, *h)
		return true, len(found) < most
	})
	return found
}

// share notes which version of the list has bans.
func (s *heldBans) share(bans []heldBan, version uint64) {
	ids := make(map[uint64]bool, len(bans))
	for _, h := range bans {
		ids[h.id] = true
	}
	s.change(func(h *heldBan) (keep, more bool) {
		if ids[h.id] {
			h.version = version
		}
		return true, true
	})
}

// A neighbourhood is the network around bans of a zone.
type neighbourhood struct {
	zone, parent string
	dry          bool
}

func (h *heldBan) neighbourhood() neighbourhood {
	return neighbourhood{h.zone, h.ban.Parent, h.dry}
}

// neighbours counts the bans in force that are on no list, by the network around them.
func (s *heldBans) neighbours(now time.Time) map[neighbourhood]int {
	n := make(map[neighbourhood]int)
	s.change(func(h *heldBan) (keep, more bool) {
		if h.version == 0 && h.ban.Parent != "" && !h.ban.Over(now) {
			n[h.neighbourhood()]++
		}
		return true, true
	})
	return n
}

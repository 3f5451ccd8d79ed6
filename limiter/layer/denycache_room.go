package layer

import "sync"

const (
	// ways is how many answers a set holds, among which one gives way to another.
	ways = 8
	// mostSets is how many sets a shard has at most: to lay them out anew takes some microseconds.
	mostSets = 32
)

// A shard is a part of the cache with a lock of its own, and as many sets as what it remembers needs.
type shard struct {
	mu     sync.Mutex
	forgot int64 // when something was last forgotten on purpose
	sets   []set // their number is a power of two, or 0

	_ [24]byte // a cache line for each
}

// A set holds the answers about the states whose hashes name it.
type set struct {
	ids     [ways]uint64 // of the states; 0 where there is no answer
	names   [ways]uint64 // see DenyCache.tag
	answers [ways]answer
}

func (c *DenyCache) shard(id uint64) *shard { return &c.shards[id&uint64(len(c.shards)-1)] }

// set returns the set of a state; nil if there is none yet. The bits of the hash that choose it are not those
// that chose the shard.
func (s *shard) set(id uint64) *set {
	if len(s.sets) == 0 {
		return nil
	}
	return &s.sets[id>>32&uint64(len(s.sets)-1)]
}

// put keeps an answer unless something was forgotten since the store was asked, or everything
// in its set can be used for longer. Before anything that can be used gives way the shard grows.
func (c *DenyCache) put(id, name uint64, kept *answer) {
	s := c.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if kept.asked <= s.forgot || kept.asked <= c.forgot.Load() {
		return
	}
	for {
		if at := s.set(id); at != nil {
			i, rank := c.victim(at, id, kept)
			if grows := rank > over && len(s.sets) < c.most; !grows {
				if i >= 0 {
					at.ids[i], at.names[i], at.answers[i] = id, name, *kept
				}
				return
			}
		}
		c.resize(s, max(1, 2*len(s.sets)), kept.asked)
	}
}

// victim returns the place in a set that is to be an answer's, and the rank of what gives way there; -1 if nothing is
// to. The answer about the same gives way whatever its rank, unless it is newer.
func (c *DenyCache) victim(at *set, id uint64, kept *answer) (place int, rank int64) {
	place, rank = -1, c.rank(kept, kept.asked)
	for i := range at.ids {
		old := &at.answers[i]
		switch {
		case at.ids[i] == id && old.cost == kept.cost && old.numbers == kept.numbers:
			if old.asked > kept.asked {
				return -1, free
			}
			kept.curious = old.curious
			return i, free
		case at.ids[i] == 0:
			place, rank = i, free
		case c.rank(old, kept.asked) < rank:
			place, rank = i, c.rank(old, kept.asked)
		}
	}
	return place, rank
}

// Ranks of what is in a set, below those of refusals.
const (
	free = iota
	over
	accompanies
)

// rank orders answers by their worth: what accompanies a refusal gives way to refusals, and
// of these the one that can be used for the shortest time to all others.
func (c *DenyCache) rank(a *answer, now int64) int64 {
	usable := c.usable(a)
	switch {
	case now >= usable:
		return over
	case !a.refused:
		return accompanies
	}
	return usable
}

// resize gives a shard that many sets, and keeps what can be used.
func (c *DenyCache) resize(s *shard, sets int, now int64) {
	was := s.sets
	s.sets = make([]set, sets)
	for i := range was {
		for j, id := range was[i].ids {
			old := &was[i].answers[j]
			if id == 0 || now >= c.usable(old) {
				continue
			}
			at := s.set(id)
			if k, _ := c.victim(at, id, old); k >= 0 {
				at.ids[k], at.names[k], at.answers[k] = id, was[i].names[j], *old
			}
		}
	}
}

// Sweep gives back the room that is not needed any more in one of so many parts of the cache, each time in another.
func (c *DenyCache) Sweep(parts int) {
	now := c.now()
	n := max(1, len(c.shards)/parts)
	from := int(c.swept.Add(1)-1) * n
	for i := range n {
		c.shrink(&c.shards[(from+i)%len(c.shards)], now)
	}
}

// shrink halves a shard, again and again, while what can be used fills an eighth of it at most.
func (c *DenyCache) shrink(s *shard, now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := 0
	for i := range s.sets {
		for j, id := range s.sets[i].ids {
			if id != 0 && now < c.usable(&s.sets[i].answers[j]) {
				used++
			}
		}
	}
	sets := len(s.sets)
	for sets > 1 && 8*used <= sets*ways {
		sets /= 2
	}
	switch {
	case used == 0:
		s.sets = nil
	case sets < len(s.sets):
		c.resize(s, sets, now)
	}
}

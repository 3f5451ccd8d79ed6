package memstore

import (
	"maps"
	"sync"
	"sync/atomic"
)

// sweeper remembers where the next sweep goes on.
type sweeper struct {
	sync.Mutex
	next int
}

// sweepStep is how many entries are looked at under one hold of a lock.
const sweepStep = 256

// Sweep looks at that many entries, going on where the last call ended, and frees those whose
// counts have run out. It returns how many they were. No ask waits for more than a
// few microseconds because of it.
func (s *Store) Sweep(entries int) (removed int) {
	s.sweep.Lock()
	defer s.sweep.Unlock()
	for range s.shards {
		if entries <= 0 {
			break
		}
		sh := &s.shards[s.sweep.next]
		s.sweep.next = (s.sweep.next + 1) % len(s.shards)
		for seen := 0; ; seen += sweepStep {
			now := s.enter(sh)
			size := int(sh.entries.size)
			removed += sh.reclaim(now, sweepStep)
			if sh.count == 0 {
				sh.release()
			}
			sh.Unlock()
			if seen+sweepStep >= size {
				entries -= max(size, 1)
				break
			}
		}
	}
	return removed
}

// release gives the memory of an empty shard back, which a flood of keys may have left.
func (sh *shard) release() {
	sh.buckets, sh.more, sh.entries, sh.large = list[bucket]{}, list[bucket]{}, list[entry]{}, list[large]{}
	sh.spare, sh.free, sh.unused, sh.hand = 0, 0, 0, 0
}

// Len returns how many keys are held, each counted once for each of its limits; some of
// them may have run out.
func (s *Store) Len() int {
	var total int
	for i := range s.shards {
		sh := &s.shards[i]
		sh.Lock()
		total += sh.count
		sh.Unlock()
	}
	return total
}

// Keys returns how many keys are held for each zone.
func (s *Store) Keys() map[string]int {
	keys := make(map[string]int)
	names := s.zones.all()
	for i := range s.shards {
		sh := &s.shards[i]
		sh.Lock()
		for zone, n := range sh.zones {
			// A zone that came up after names was read is counted next time.
			if n > 0 && zone < len(names) {
				keys[names[zone]] += int(n)
			}
		}
		sh.Unlock()
	}
	return keys
}

// zones numbers the names of zones, once a key of theirs is held. Every new key asks for
// a number, so that a name that is known is looked up without a lock.
type zones struct {
	known atomic.Pointer[zoneNames]
	mu    sync.Mutex // held to add a name
}

// zoneNames never change.
type zoneNames struct {
	numbers map[string]uint32
	names   []string
}

// number returns a zone's number.
func (z *zones) number(name string) uint32 {
	if known := z.known.Load(); known != nil {
		if n, ok := known.numbers[name]; ok {
			return n
		}
	}
	return z.add(name)
}

func (z *zones) add(name string) uint32 {
	z.mu.Lock()
	defer z.mu.Unlock()
	var next zoneNames
	if known := z.known.Load(); known != nil {
		next = *known
	}
	n, ok := next.numbers[name]
	if ok {
		return n
	}
	next.numbers = maps.Clone(next.numbers)
	if next.numbers == nil {
		next.numbers = make(map[string]uint32)
	}
	n = uint32(len(next.names))
	next.numbers[name] = n
	next.names = append(next.names[:n:n], name)
	z.known.Store(&next)
	return n
}

// all returns the names by number.
func (z *zones) all() []string {
	if known := z.known.Load(); known != nil {
		return known.names
	}
	return nil
}

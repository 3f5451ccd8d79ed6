package memstore

import (
	"sync"

	"github.com/weirhq/caddy-weir/limiter"
)

// shard is a chained hash table of entries. The entries lie in one slice that holds no
// pointers, and name each other by number; number 0 is none. The lock guards all of it.
type shard struct {
	sync.Mutex
	entries []entry
	buckets []uint32 // heads of chains, a power of two
	free    uint32   // head of the chain of unused entries
	count   int
	most    int
	hand    uint32 // the entry that reclaim looks at next
	zones   []int32
	large   [][]byte // states that do not fit into an entry
	spare   []uint32 // unused places in large

	_ [64]byte // keeps the locks of neighbours out of each other's cache lines
}

// entry holds one state.
type entry struct {
	id    uint64
	until limiter.Instant // from then on the state means nothing; 0 in an unused entry
	next  uint32
	zone  uint32
	size  uint8 // of the state in small, or isLarge
	small [22]byte
}

// isLarge marks an entry whose state lies in the shard's large ones, at the place that the
// first four bytes of small tell.
const isLarge = 255

// find returns the entry of that id, or 0.
func (sh *shard) find(id uint64) uint32 {
	if len(sh.buckets) == 0 {
		return 0
	}
	n := sh.buckets[sh.bucket(id)]
	for n != 0 && sh.entries[n].id != id {
		n = sh.entries[n].next
	}
	return n
}

func (sh *shard) bucket(id uint64) uint64 { return id & uint64(len(sh.buckets)-1) }

// insert makes an empty entry, which is not there yet. It stays until it is removed, since it
// lives until after now.
func (sh *shard) insert(id uint64, zone uint32, now limiter.Instant) uint32 {
	if len(sh.entries) == 0 {
		sh.entries = make([]entry, 1, 8)
	}
	// A little is swept with each new key, so that the table grows only with live ones.
	sh.reclaim(now, sweepOnInsert)
	n := sh.free
	if n != 0 {
		sh.free = sh.entries[n].next
	} else {
		n = uint32(len(sh.entries))
		sh.entries = append(sh.entries, entry{})
	}
	sh.count++
	if sh.count > len(sh.buckets) {
		sh.grow()
	}
	b := sh.bucket(id)
	sh.entries[n] = entry{id: id, until: now + 1, next: sh.buckets[b], zone: zone}
	sh.buckets[b] = n
	for len(sh.zones) <= int(zone) {
		sh.zones = append(sh.zones, 0)
	}
	sh.zones[zone]++
	return n
}

// grow doubles the buckets and chains all entries anew.
func (sh *shard) grow() {
	sh.buckets = make([]uint32, max(2*len(sh.buckets), 8))
	for n := range sh.entries {
		e := &sh.entries[n]
		if e.until != 0 {
			b := sh.bucket(e.id)
			e.next = sh.buckets[b]
			sh.buckets[b] = uint32(n)
		}
	}
}

// remove frees an entry.
func (sh *shard) remove(n uint32) {
	e := &sh.entries[n]
	link := &sh.buckets[sh.bucket(e.id)]
	for *link != n {
		link = &sh.entries[*link].next
	}
	*link = e.next
	if e.size == isLarge {
		at := e.largeAt()
		sh.large[at] = nil
		sh.spare = append(sh.spare, at)
	}
	sh.zones[e.zone]--
	sh.count--
	*e = entry{next: sh.free}
	sh.free = n
}

// How many entries are looked at when a key is inserted, and when a full shard seeks room.
const (
	sweepOnInsert = 2
	sweepForRoom  = 64
)

// hasRoom reports whether a new key can have an entry.
func (sh *shard) hasRoom(now limiter.Instant) bool {
	if sh.count >= sh.most {
		sh.reclaim(now, sweepForRoom)
	}
	return sh.count < sh.most
}

// reclaim looks at the next few entries in turn, removes those that are over and returns
// how many they were.
func (sh *shard) reclaim(now limiter.Instant, few int) (removed int) {
	for range min(few, len(sh.entries)) {
		if sh.hand++; int(sh.hand) >= len(sh.entries) {
			sh.hand = 0
		}
		if until := sh.entries[sh.hand].until; until != 0 && until <= now {
			sh.remove(sh.hand)
			removed++
		}
	}
	return removed
}

// hold keeps an entry from being reclaimed at now. If it is over it is empty afterwards, its
// room kept.
func (sh *shard) hold(n uint32, now limiter.Instant) {
	e := &sh.entries[n]
	if e.until > now {
		return
	}
	e.until = now + 1
	if e.size == isLarge {
		at := e.largeAt()
		sh.large[at] = sh.large[at][:0]
	} else {
		e.size = 0
	}
}

// state returns the state of an entry, in its room, and an empty one of entry 0.
func (sh *shard) state(n uint32) []byte {
	if n == 0 {
		return nil
	}
	e := &sh.entries[n]
	if e.size == isLarge {
		return sh.large[e.largeAt()]
	}
	return e.small[:e.size]
}

// save keeps a state that was made from state's, in its room or not. An empty one is over.
func (sh *shard) save(n uint32, state []byte, until limiter.Instant) {
	e := &sh.entries[n]
	e.until = until
	switch {
	case e.size == isLarge:
		sh.large[e.largeAt()] = state
	case len(state) <= len(e.small):
		copy(e.small[:], state) // onto itself, mostly
		e.size = uint8(len(state))
	default:
		at := uint32(len(sh.large))
		if last := len(sh.spare) - 1; last >= 0 {
			at, sh.spare = sh.spare[last], sh.spare[:last]
			sh.large[at] = state
		} else {
			sh.large = append(sh.large, state)
		}
		e.size = isLarge
		e.setLargeAt(at)
	}
}

// empty reports whether an entry holds no state.
func (sh *shard) empty(n uint32) bool {
	e := &sh.entries[n]
	return e.size == 0 || e.size == isLarge && len(sh.large[e.largeAt()]) == 0
}

func (e *entry) largeAt() uint32 {
	return uint32(e.small[0]) | uint32(e.small[1])<<8 | uint32(e.small[2])<<16 | uint32(e.small[3])<<24
}

func (e *entry) setLargeAt(at uint32) {
	e.small = [22]byte{byte(at), byte(at >> 8), byte(at >> 16), byte(at >> 24)}
}

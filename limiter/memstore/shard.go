package memstore

import (
	"encoding/binary"
	"sync"

	"github.com/weirhq/caddy-weir/limiter"
)

// shard is a table of entries under a lock, which guards all of it. Entries hold no pointers
// and are named by number; number 0 is none.
type shard struct {
	// What every decision looks at comes first, in two lines of the processor's cache.
	sync.Mutex
	last    limiter.Instant // when the last step was, if the clock is steady
	buckets list[bucket]
	entries list[entry]

	count  int
	most   int
	more   list[bucket] // where buckets go on that are full
	large  list[large]  // states that do not fit into an entry
	zones  []int32
	spare  uint32 // head of the chain of unused ones in more, as in a bucket
	free   uint32 // head of the chain of unused entries
	hand   uint32 // the entry that reclaim looks at next
	unused uint32 // head of the chain of unused places in large, one more than the number

	_ [24]byte // up to the end of a line, so that neighbours share none
}

// smallMost is the length of the longest state that fits into an entry: a token bucket's.
const smallMost = 20

// entry holds one state.
type entry struct {
	id    uint64          // in an unused entry, the next of those
	until limiter.Instant // from then on the state means nothing; 0 in an unused entry
	zone  [3]uint8        // its number: there are never as many as fit
	size  uint8           // of the state in small, or isLarge
	small [smallMost]byte
}

// isLarge marks an entry whose state lies in the shard's large ones, at the place that the
// first four bytes of small tell.
const isLarge = 255

// large holds a state that does not fit into an entry.
type large struct {
	state  []byte
	unused uint32 // while it is unused itself: as in the shard
}

// insert makes an empty entry, which is not there yet. It stays until it is removed, since it
// lives until after now.
func (sh *shard) insert(id uint64, zone uint32, now limiter.Instant) uint32 {
	if sh.entries.size == 0 {
		sh.entries.push(entry{})
		sh.split()
	}
	// A little is swept with each new key, so that the table grows only with live ones.
	sh.reclaim(now, sweepOnInsert)
	n := sh.free
	if n != 0 {
		sh.free = sh.entries.at(n).nextUnused()
	} else {
		n = sh.entries.push(entry{})
		if n > bucketLoad*sh.buckets.size {
			sh.split()
		}
	}
	sh.count++
	e := sh.entries.at(n)
	*e = entry{id: id, until: now + 1}
	e.setZone(zone)
	sh.put(id, n)
	for len(sh.zones) <= int(zone) {
		sh.zones = append(sh.zones, 0)
	}
	sh.zones[zone]++
	return n
}

// remove frees an entry.
func (sh *shard) remove(n uint32) {
	e := sh.entries.at(n)
	sh.drop(e.id, n)
	if e.size == isLarge {
		at := e.largeAt()
		*sh.large.at(at) = large{unused: sh.unused}
		sh.unused = at + 1
	}
	sh.zones[e.zoneNumber()]--
	sh.count--
	*e = entry{id: uint64(sh.free)}
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
	for range min(few, int(sh.entries.size)) {
		if sh.hand++; sh.hand >= sh.entries.size {
			sh.hand = 0
		}
		if until := sh.entries.at(sh.hand).until; until != 0 && until <= now {
			sh.remove(sh.hand)
			removed++
		}
	}
	return removed
}

// hold keeps an entry from being reclaimed at now. If it is over it is empty afterwards, its
// room kept.
func (sh *shard) hold(e *entry, now limiter.Instant) {
	if e.until > now {
		return
	}
	e.until = now + 1
	if e.size == isLarge {
		l := sh.large.at(e.largeAt())
		l.state = l.state[:0]
	} else {
		e.size = 0
	}
}

// state returns the state of an entry, in its room.
func (sh *shard) state(e *entry) []byte {
	if e.size == isLarge {
		return sh.large.at(e.largeAt()).state
	}
	return e.small[:e.size]
}

// save keeps a state that was made from state's, in its room or not. An empty one is over.
func (sh *shard) save(e *entry, state []byte, until limiter.Instant) {
	e.until = until
	switch {
	case e.size == isLarge:
		sh.large.at(e.largeAt()).state = state
	case len(state) <= len(e.small):
		if len(state) > 0 && &state[0] != &e.small[0] {
			copy(e.small[:], state)
		}
		e.size = uint8(len(state))
	default:
		e.size = isLarge
		e.setLargeAt(sh.saveLarge(state))
	}
}

// saveLarge finds a place for a large state.
func (sh *shard) saveLarge(state []byte) uint32 {
	if sh.unused == 0 {
		return sh.large.push(large{state: state})
	}
	at := sh.unused - 1
	l := sh.large.at(at)
	sh.unused = l.unused
	*l = large{state: state}
	return at
}

func (e *entry) nextUnused() uint32 { return uint32(e.id) }

func (e *entry) zoneNumber() uint32 {
	return uint32(e.zone[0]) | uint32(e.zone[1])<<8 | uint32(e.zone[2])<<16
}

func (e *entry) setZone(n uint32) { e.zone = [3]byte{byte(n), byte(n >> 8), byte(n >> 16)} }

func (e *entry) largeAt() uint32 { return binary.LittleEndian.Uint32(e.small[:]) }

func (e *entry) setLargeAt(at uint32) { binary.LittleEndian.PutUint32(e.small[:], at) }

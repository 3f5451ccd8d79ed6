package memstore

import (
	"math/bits"
	"sync"

	"github.com/weirhq/caddy-weir/limiter"
)

// shard is a hash table of entries, by linear hashing: there are as many chains as entries,
// and each new entry splits one chain in two. So a table never has to be laid out anew, and
// nobody waits while it grows. Entries hold no pointers and name each other by number;
// number 0 is none. The lock guards all.
type shard struct {
	sync.Mutex
	entries list[entry]
	chains  list[uint32] // their heads, as many as entries
	free    uint32       // head of the chain of unused entries
	count   int
	most    int
	hand    uint32 // the entry that reclaim looks at next
	zones   []int32
	large   list[large] // states that do not fit into an entry
	spare   uint32      // head of the chain of unused places in large, one more than the number

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

// large holds a state that does not fit into an entry.
type large struct {
	state []byte
	spare uint32 // while it is unused: as in the shard
}

// find returns the entry of that id, or 0.
func (sh *shard) find(id uint64) uint32 {
	if sh.entries.size == 0 {
		return 0
	}
	n := *sh.chain(id)
	for n != 0 {
		e := sh.entries.at(n)
		if e.id == id {
			break
		}
		n = e.next
	}
	return n
}

// chain returns the head of the chain of an id. Chains are told apart by the low bits of the
// ids in them, by one bit more where a chain was split already.
func (sh *shard) chain(id uint64) *uint32 {
	last := sh.chains.size - 1
	n := uint32(id) & (1<<bits.Len32(last) - 1)
	if n > last {
		n &= 1<<(bits.Len32(last)-1) - 1
	}
	return sh.chains.at(n)
}

// insert makes an empty entry, which is not there yet. It stays until it is removed, since it
// lives until after now.
func (sh *shard) insert(id uint64, zone uint32, now limiter.Instant) uint32 {
	if sh.entries.size == 0 {
		sh.entries.push(entry{})
		sh.chains.push(0)
	}
	// A little is swept with each new key, so that the table grows only with live ones.
	sh.reclaim(now, sweepOnInsert)
	n := sh.free
	if n != 0 {
		sh.free = sh.entries.at(n).next
	} else {
		n = sh.grow()
	}
	sh.count++
	chain := sh.chain(id)
	*sh.entries.at(n) = entry{id: id, until: now + 1, next: *chain, zone: zone}
	*chain = n
	for len(sh.zones) <= int(zone) {
		sh.zones = append(sh.zones, 0)
	}
	sh.zones[zone]++
	return n
}

// grow adds an unused entry, and a chain, to which it moves what belongs there from the one
// chain that is split.
func (sh *shard) grow() uint32 {
	added := sh.entries.push(entry{})
	sh.chains.push(0)
	split := added - 1<<(bits.Len32(added)-1)
	link, moved := sh.chains.at(split), sh.chains.at(added)
	for *link != 0 {
		n := *link
		e := sh.entries.at(n)
		if head := sh.chain(e.id); head != moved {
			link = &e.next
			continue
		}
		*link = e.next
		e.next, *moved = *moved, n
	}
	return added
}

// remove frees an entry.
func (sh *shard) remove(n uint32) {
	e := sh.entries.at(n)
	link := sh.chain(e.id)
	for *link != n {
		link = &sh.entries.at(*link).next
	}
	*link = e.next
	if e.size == isLarge {
		at := e.largeAt()
		*sh.large.at(at) = large{spare: sh.spare}
		sh.spare = at + 1
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
func (sh *shard) hold(n uint32, now limiter.Instant) {
	e := sh.entries.at(n)
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

// state returns the state of an entry, in its room, and an empty one of entry 0.
func (sh *shard) state(n uint32) []byte {
	if n == 0 {
		return nil
	}
	e := sh.entries.at(n)
	if e.size == isLarge {
		return sh.large.at(e.largeAt()).state
	}
	return e.small[:e.size]
}

// save keeps a state that was made from state's, in its room or not. An empty one is over.
func (sh *shard) save(n uint32, state []byte, until limiter.Instant) {
	e := sh.entries.at(n)
	e.until = until
	switch {
	case e.size == isLarge:
		sh.large.at(e.largeAt()).state = state
	case len(state) <= len(e.small):
		copy(e.small[:], state) // onto itself, mostly
		e.size = uint8(len(state))
	default:
		e.size = isLarge
		e.setLargeAt(sh.saveLarge(state))
	}
}

// saveLarge finds a place for a large state.
func (sh *shard) saveLarge(state []byte) uint32 {
	if sh.spare == 0 {
		return sh.large.push(large{state: state})
	}
	at := sh.spare - 1
	l := sh.large.at(at)
	sh.spare = l.spare
	*l = large{state: state}
	return at
}

// empty reports whether an entry holds no state.
func (sh *shard) empty(n uint32) bool { return len(sh.state(n)) == 0 }

func (e *entry) largeAt() uint32 {
	return uint32(e.small[0]) | uint32(e.small[1])<<8 | uint32(e.small[2])<<16 | uint32(e.small[3])<<24
}

func (e *entry) setLargeAt(at uint32) {
	e.small = [22]byte{byte(at), byte(at >> 8), byte(at >> 16), byte(at >> 24)}
}

package memstore

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync/atomic"
	"unsafe"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/algorithm"
)

// known is what the states of a limit share, which never changes.
type known struct {
	limit *limiter.Limit
	alg   algorithm.Algorithm
	hash  uint64 // of what names them besides the key
}

// knownLimits remembers limits by their addresses, since the same ones are asked about again and
// again. A limit whose slot another one has, perhaps from before a reload, is worked out each time, and gets
// the slot once in a while: soon if it is asked about often.
type knownLimits struct {
	slots [1 << knownBits]atomic.Pointer[known]
}

const (
	knownBits = 9
	// once in so many times a limit takes the slot that another one has.
	takeover = 1 << 12
)

// slot returns the place of a limit.
func (k *knownLimits) slot(l *limiter.Limit) *atomic.Pointer[known] {
	const golden = 0x9e3779b97f4a7c15 // 2^64 over the golden ratio: D. E. Knuth, TAOCP vol. 3, 6.4
	return &k.slots[uint64(uintptr(unsafe.Pointer(l)))*golden>>(64-knownBits)]
}

// know fills in what a place has of its limit.
func (s *Store) know(p *place, l *limiter.Limit) error {
	slot := s.limits.slot(l)
	old := slot.Load()
	if old != nil && old.limit == l {
		p.alg, p.limit = old.alg, old.hash
		return nil
	}
	number := algorithm.Number(l.Algorithm)
	if number < 0 {
		return fmt.Errorf("zone %q: no algorithm %q", l.Zone, l.Algorithm)
	}
	p.alg = algorithm.All[number]
	p.limit = maphash.String(s.seed, l.Zone) ^ (uint64(l.Index)<<3 | uint64(number))
	if old == nil || rand.N(takeover) == 0 {
		slot.Store(&known{l, p.alg, p.limit})
	}
	return nil
}

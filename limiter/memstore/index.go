package memstore

import (
	"encoding/binary"
	"math/bits"
)

// How entries are found by their ids: in a hash table by linear hashing, in which every few
// new entries split one bucket in two. So it never has to be laid out anew, and nobody waits
// while it grows.

const (
	bucketSlots = 12
	// bucketLoad is how many entries there are to a bucket. One that was not yet split has
	// up to twice as many, so that hardly any goes on in another one.
	bucketLoad = 5
)

// A bucket holds the numbers of entries. It is as large as a line of the processor's cache
// and tells nearly all ids apart by itself, so that to find an entry among many means to
// fetch the bucket and the entry, and to find none, the bucket alone.
type bucket struct {
	tags    [bucketSlots]uint8 // of the ids; 0 in a slot that is unused
	next    uint32             // one more than the number in more where it goes on, or 0
	entries [bucketSlots]uint32
}

// tagOf returns what a slot holds of an id: bits on which its bucket does not depend.
func tagOf(id uint64) uint8 { return uint8(id>>57) | 0x80 }

// eachByte has a one in each of its bytes.
const eachByte = 0x0101010101010101

// match marks, by their highest bits, those of the first eight tags that equal one. Above a
// mark there may be wrong ones.
func match(tags []uint8, tag uint8) uint64 {
	differ := binary.LittleEndian.Uint64(tags) ^ eachByte*uint64(tag)
	return (differ - eachByte) &^ differ & (eachByte << 7)
}

// bucket returns the bucket of an id. Buckets are told apart by the low bits of the ids in
// them, by one bit more where a bucket was split already.
func (sh *shard) bucket(id uint64) *bucket {
	last := sh.buckets.size - 1
	n := uint32(id) & (1<<bits.Len32(last) - 1)
	if n > last {
		n &= 1<<(bits.Len32(last)-1) - 1
	}
	return sh.buckets.at(n)
}

// find returns the entry of that id, or 0.
func (sh *shard) find(id uint64) uint32 {
	if sh.buckets.size == 0 {
		return 0
	}
	tag := tagOf(id)
	for b := sh.bucket(id); ; b = sh.more.at(b.next - 1) {
		if n := sh.among(b.entries[:8], match(b.tags[:8], tag), id); n != 0 {
			return n
		}
		// Some slots are looked at twice.
		if n := sh.among(b.entries[bucketSlots-8:], match(b.tags[bucketSlots-8:], tag), id); n != 0 {
			return n
		}
		if b.next == 0 {
			return 0
		}
	}
}

// among returns the entry of that id among those marked, or 0.
func (sh *shard) among(entries []uint32, marks uint64, id uint64) uint32 {
	for ; marks != 0; marks &= marks - 1 {
		n := entries[bits.TrailingZeros64(marks)/8]
		if sh.entries.at(n).id == id {
			return n
		}
	}
	return 0
}

// put files an entry under its id.
func (sh *shard) put(id uint64, n uint32) {
	head := sh.bucket(id)
	for b := head; ; b = sh.more.at(b.next - 1) {
		for i := range b.tags {
			if b.tags[i] == 0 {
				b.tags[i], b.entries[i] = tagOf(id), n
				return
			}
		}
		if b.next == 0 {
			break
		}
	}
	next := sh.fresh()
	b := sh.more.at(next - 1)
	b.tags[0], b.entries[0] = tagOf(id), n
	b.next, head.next = head.next, next
}

// fresh returns an empty bucket for another one to go on in.
func (sh *shard) fresh() uint32 {
	if sh.spare == 0 {
		return sh.more.push(bucket{}) + 1
	}
	next := sh.spare
	b := sh.more.at(next - 1)
	sh.spare, b.next = b.next, 0
	return next
}

// drop takes an entry out, which must be there.
func (sh *shard) drop(id uint64, n uint32) {
	for b := sh.bucket(id); ; b = sh.more.at(b.next - 1) {
		for i := range b.entries {
			if b.entries[i] == n {
				b.tags[i], b.entries[i] = 0, 0
				return
			}
		}
	}
}

// split adds a bucket, to which it moves what belongs there from the one that is split.
func (sh *shard) split() {
	added := sh.buckets.push(bucket{})
	if added == 0 {
		return
	}
	b := sh.buckets.at(added - 1<<(bits.Len32(added)-1))
	old := *b
	*b = bucket{}
	for {
		for _, n := range old.entries {
			if n != 0 {
				sh.put(sh.entries.at(n).id, n)
			}
		}
		next := old.next
		if next == 0 {
			return
		}
		b = sh.more.at(next - 1)
		old = *b
		*b = bucket{next: sh.spare}
		sh.spare = next
	}
}

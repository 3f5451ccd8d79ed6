package memstore

import (
	"math/rand/v2"
	"testing"
	"unsafe"
)

// What a decision touches stands in whole lines of the cache.
func TestLines(t *testing.T) {
	const line = 64
	if n := unsafe.Sizeof(bucket{}); n != line {
		t.Errorf("a bucket has %d bytes, want %d", n, line)
	}
	if n := unsafe.Sizeof(shard{}); n%line != 0 {
		t.Errorf("a shard has %d bytes, want whole lines of %d", n, line)
	}
	if n := unsafe.Offsetof(shard{}.entries) + unsafe.Offsetof(list[entry]{}.rest); n > 2*line {
		t.Errorf("what every decision looks at takes %d bytes, want at most %d", n, 2*line)
	}
}

// Ids that differ only in the bits that slots do not tell apart, or that all belong to one bucket,
// are found, and none is found that is not there.
func TestIndex(t *testing.T) {
	for _, c := range []struct {
		name string
		id   func(rng *rand.Rand) uint64
	}{
		{"random", func(rng *rand.Rand) uint64 { return rng.Uint64() }},
		{"one tag", func(rng *rand.Rand) uint64 { return rng.Uint64() >> 8 }},
		{"one bucket", func(rng *rand.Rand) uint64 { return rng.Uint64() << 32 }},
		{"tags side by side", func(rng *rand.Rand) uint64 { return rng.Uint64()>>8 | rng.Uint64N(3)<<57 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var sh shard
			rng := rand.New(rand.NewPCG(1, 1))
			kept := make(map[uint64]uint32)
			for step := range 3000 {
				id := c.id(rng)
				if n := sh.find(id); n != kept[id] {
					t.Fatalf("step %d: %#x is entry %d, want %d", step, id, n, kept[id])
				}
				if kept[id] == 0 {
					kept[id] = sh.insert(id, 0, 0)
				}
				for id, n := range kept {
					if got := sh.find(id); got != n {
						t.Fatalf("step %d: %#x is entry %d, want %d", step, id, got, n)
					}
					if rng.IntN(3) == 0 {
						sh.remove(n)
						delete(kept, id)
					}
					break
				}
			}
			for id, n := range kept {
				if got := sh.find(id); got != n {
					t.Fatalf("at last %#x is entry %d, want %d", id, got, n)
				}
				sh.remove(n)
				if got := sh.find(id); got != 0 {
					t.Fatalf("%#x is still entry %d", id, got)
				}
			}
			if sh.count != 0 {
				t.Errorf("%d are left", sh.count)
			}
		})
	}
}

// The places where full buckets went on are used again.
func TestIndexMakesRoom(t *testing.T) {
	var sh shard
	rng := rand.New(rand.NewPCG(2, 2))
	for range 100 {
		var numbers []uint32
		for range 1000 {
			numbers = append(numbers, sh.insert(rng.Uint64()<<32, 0, 0)) // all in one bucket
		}
		for _, n := range numbers {
			sh.remove(n)
		}
	}
	if most := uint32(2 * 1000 / bucketSlots); sh.more.size > most {
		t.Errorf("%d further buckets for 1000 entries, want at most %d", sh.more.size, most)
	}
}

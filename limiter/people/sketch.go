package people

import (
	"math"
	"slices"
)

// sketchSize is how many hashes a sketch keeps. Fewer things it counts exactly; of more the
// standard error is 1/√(sketchSize-2), some 6 %.
const sketchSize = 256

// A sketch counts distinct things by their hashes, of which it keeps the smallest: if the
// k-th of them lies at a fraction x of all numbers, there are about (k-1)/x things. Sketches
// of parts make one of the whole. The zero value is empty.
//
// After Bar-Yossef, Jayram, Kumar, Sivakumar and Trevisan, Counting Distinct Elements in a
// Data Stream (RANDOM 2002).
type sketch []uint64 // in order

// add counts a hash. It reports whether the hash was known for certain, and whether the
// sketch is another one now.
func (s *sketch) add(hash uint64) (known, changed bool) {
	at, known := slices.BinarySearch(*s, hash)
	switch {
	case known || at == sketchSize:
		return known, false
	case len(*s) == sketchSize:
		copy((*s)[at+1:], (*s)[at:sketchSize-1])
		(*s)[at] = hash
	default:
		*s = slices.Insert(*s, at, hash)
	}
	return false, true
}

// merge appends to dst what all sketches hold together. It is a sketch again.
func merge(dst sketch, parts ...sketch) sketch {
	for _, p := range parts {
		dst = append(dst, p...)
	}
	slices.Sort(dst)
	dst = slices.Compact(dst)
	return dst[:min(len(dst), sketchSize)]
}

// count is how many distinct things there were.
func (s sketch) count() int64 {
	if len(s) < sketchSize {
		return int64(len(s))
	}
	return int64(math.Round((sketchSize - 1) / (float64(s[sketchSize-1]) / math.MaxUint64)))
}

package aggregator

import "math"

// A Scale says how much more an aggregator is allowed by the number of its subscribers.
type Scale uint8

// The scales.
const (
	// Log2 is 1 + log2 n: each doubling of the subscribers allows once more.
	Log2 Scale = iota
	// Sqrt is the square root of n.
	Sqrt
)

// Scales are the words of the scales, the default first.
var Scales = []string{Log2: "log2", Sqrt: "sqrt"}

// Factor returns by what an aggregator of n subscribers is allowed more than one reader: a whole
// number, rounded down, at least 1 and at most most.
func (s Scale) Factor(n int64, most int) int {
	f := 1.0
	switch {
	case n <= 1:
	case s == Sqrt:
		f = math.Sqrt(float64(n))
	default:
		f = 1 + math.Log2(float64(n))
	}
	return max(1, int(min(f, float64(most))))
}

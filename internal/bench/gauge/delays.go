package gauge

import (
	"math"
	"math/bits"
	"time"
)

// Delays counts how long things took, to within one part in 64. The zero value is empty. It is
// for one goroutine; several have one each and [Delays.Add] them up.
type Delays struct {
	counts [64 * fine]uint64
	n      uint64
	worst  time.Duration
}

// fine is how many steps there are from a power of two to the next.
const fine = 64

// Note counts one delay. A negative one counts as 0.
func (d *Delays) Note(took time.Duration) {
	took = max(took, 0)
	d.counts[step(uint64(took))]++
	d.n++
	d.worst = max(d.worst, took)
}

// Add counts all that another one counted.
func (d *Delays) Add(other *Delays) {
	for i, n := range other.counts {
		d.counts[i] += n
	}
	d.n += other.n
	d.worst = max(d.worst, other.worst)
}

// Count returns how many there are.
func (d *Delays) Count() int { return int(d.n) }

// Worst returns the longest, 0 if there is none.
func (d *Delays) Worst() time.Duration { return d.worst }

// Within returns the delay that the given part of all did not exceed, such as 0.99; 0 if there
// is none.
func (d *Delays) Within(part float64) time.Duration {
	need := max(uint64(math.Ceil(part*float64(d.n))), 1)
	var seen uint64
	for i, n := range d.counts {
		if seen += n; seen >= need {
			return min(time.Duration(top(i)), d.worst)
		}
	}
	return d.worst
}

// step returns where a number is counted: numbers below fine have a step each, from there on
// each power of two has fine of them.
func step(n uint64) int {
	if n < fine {
		return int(n)
	}
	shift := bits.Len64(n) - bits.Len64(fine)
	return shift*fine + int(n>>shift)
}

// top returns the greatest number of a step.
func top(i int) uint64 {
	if i < 2*fine {
		return uint64(i)
	}
	shift := i/fine - 1
	return (uint64(i-shift*fine)+1)<<shift - 1
}

package observe

import (
	"sync/atomic"
	"time"
)

// every is how many in a row a sampler passes over within a second.
const every = 1000

// A sampler thins out what may come in floods: it picks the first of each second and
// after that every thousandth. The zero value is ready; it is safe for concurrent use.
type sampler struct {
	second  atomic.Int64
	skipped atomic.Int64
}

// pick reports whether this one is picked and, if so, how many were passed over since
// the last that was.
func (s *sampler) pick(now time.Time) (skipped int64, ok bool) {
	// An old second also counts as new: a clock that was set back must not silence.
	if second, last := now.Unix(), s.second.Load(); second != last && s.second.CompareAndSwap(last, second) {
		return s.skipped.Swap(0), true
	}
	n := s.skipped.Add(1)
	if n >= every && s.skipped.CompareAndSwap(n, 0) {
		return n - 1, true
	}
	return 0, false
}

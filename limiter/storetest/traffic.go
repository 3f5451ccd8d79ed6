package storetest

import (
	"math/rand/v2"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// A shape of traffic gives the distance of each request from the one before, for a limit.
type shape struct {
	name string
	gaps func(rng *rand.Rand, l *limiter.Limit) func() time.Duration
}

var shapes = []shape{
	{"uniform", func(_ *rand.Rand, l *limiter.Limit) func() time.Duration {
		gap := l.Window * 2 / 3 / time.Duration(l.Events)
		return func() time.Duration { return gap }
	}},
	{"poisson half", poisson(0.5)},
	{"poisson", poisson(1)},
	{"poisson over", poisson(1.5)},
	{"flood", poisson(10)},
	{"bursts", func(rng *rand.Rand, l *limiter.Limit) func() time.Duration {
		left := int64(0)
		return func() time.Duration {
			if left--; left > 0 {
				return 0
			}
			left = 1 + rng.Int64N(2*l.Events)
			return time.Duration(rng.Int64N(int64(l.Window)))
		}
	}},
	{"window edge", func(_ *rand.Rand, l *limiter.Limit) func() time.Duration {
		// One request opens a window, then come all that pass at its very end, and
		// as many when the next begins.
		step := int64(0)
		return func() time.Duration {
			step++
			switch step % (2*l.Events + 1) {
			case 0:
				return 3 * l.Window
			case 1:
				return l.Window - time.Microsecond
			case l.Events + 1:
				return time.Microsecond
			}
			return 0
		}
	}},
	{"late burst, then flood", func(rng *rand.Rand, l *limiter.Limit) func() time.Duration {
		step, flood := int64(0), poisson(10)(rng, l)
		return func() time.Duration {
			step++
			switch at := step % (20 * l.Events); {
			case at == 1:
				return 5 * l.Window
			case at == 2:
				return l.Window * 99 / 100
			case at < l.Events:
				return 0
			}
			return flood()
		}
	}},
	{"on and off", func(rng *rand.Rand, l *limiter.Limit) func() time.Duration {
		step, busy := int64(0), poisson(4)(rng, l)
		return func() time.Duration {
			if step++; step%(2*l.Events) == 0 {
				return l.Window * 6 / 10
			}
			return busy()
		}
	}},
}

// poisson returns independent requests at load times the limit's rate.
func poisson(load float64) func(*rand.Rand, *limiter.Limit) func() time.Duration {
	return func(rng *rand.Rand, l *limiter.Limit) func() time.Duration {
		mean := float64(l.Window) / float64(l.Events) / load
		return func() time.Duration { return time.Duration(mean * rng.ExpFloat64()) }
	}
}

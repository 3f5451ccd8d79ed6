package algorithm

import (
	"fmt"

	"github.com/weirhq/caddy-weir/limiter"
)

// minInterval keeps a distance of at least Window between two requests of a key. It is a
// token bucket of one, with the same states.
type minInterval struct{ tokenBucket }

func (minInterval) Name() string { return limiter.MinInterval }

func (m minInterval) Check(l *limiter.Limit) error {
	if l.Events != 1 {
		return fmt.Errorf("events: a min_interval lets 1 pass at a time, got %d", l.Events)
	}
	return m.tokenBucket.Check(l)
}

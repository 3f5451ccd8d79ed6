package config

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/weirhq/caddy-weir/limiter/redisstore"
)

// inspectInterval is after what time a Redis that could not be reached is looked at again.
const inspectInterval = 2 * time.Second

// inspect waits until Redis is there, looks at its servers once, and warns of what counts
// will suffer from. A configuration that has the same Redis later does not repeat it. A
// Redis that is not there is told of at once: a wrong address or password should not wait for the
// first request.
func (s *Shared) inspect(ctx context.Context) {
	tick := time.NewTicker(inspectInterval)
	defer tick.Stop()
	told := false
	for first := true; !s.pooled.inspected.Load(); first = false {
		found, err := s.pooled.Inspect(ctx)
		switch {
		case err == nil:
			if told {
				s.logger.Info("Redis can be reached")
			}
			if s.pooled.inspected.CompareAndSwap(false, true) {
				s.warn(found)
			}
			return
		case told || ctx.Err() != nil || first && isTimeout(err):
		default:
			told = true
			s.logger.Warn("Redis cannot be reached; it is used as soon as it can", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *Shared) warn(found []redisstore.Warning) {
	for _, w := range found {
		s.logger.Warn(w.Message, zap.String("server", w.Server), zap.String("detail", w.Detail))
	}
}

// isTimeout reports whether a server did not answer in time. The first connection of a busy
// start may take longer than a request may wait, and no harm done.
func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

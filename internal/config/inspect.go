package config

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/weirhq/caddy-weir/limiter/redisstore"
)

// inspectInterval is after what time a Redis that could not be used is looked at again.
const inspectInterval = 2 * time.Second

// What is told of a Redis that is not used yet, and of its end.
const (
	awayLine    = "Redis cannot be reached; it is used as soon as it can"
	backLine    = "Redis can be reached"
	refusesLine = "Redis answers, but refuses; it is used as soon as it does not"
	servesLine  = "Redis refuses no longer"
)

// hangsUp is what a server may mean that ends connections without a word.
const hangsUp = "the server hung up: if it speaks TLS, write rediss:// before its address, or tls"

// inspect waits until Redis is there, looks at its servers once, and warns of what counts
// will suffer from. A configuration that has the same Redis later does not repeat it. A
// Redis that is not there is told of at once: a wrong address or password should not wait for the
// first request.
func (s *Shared) inspect(ctx context.Context) {
	tick := time.NewTicker(inspectInterval)
	defer tick.Stop()
	told := ""
	for first := true; !s.pooled.inspected.Load(); first = false {
		found, err := s.look(ctx)
		switch line := headline(err); {
		case err == nil:
			switch told {
			case awayLine:
				s.logger.Info(backLine)
			case refusesLine:
				s.logger.Info(servesLine)
			}
			if s.pooled.inspected.CompareAndSwap(false, true) {
				s.warn(found)
			}
			return
		case told == line || ctx.Err() != nil || first && isTimeout(err):
		default:
			told = line
			s.logger.Warn(line, s.why(err)...)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look returns what an operator should know of the servers.
func (s *Shared) look(ctx context.Context) ([]redisstore.Warning, error) {
	found, err := s.pooled.Inspect(ctx)
	if err != nil {
		return nil, err
	}
	more, err := s.pooled.InspectChannel(ctx)
	return append(found, more...), err
}

// headline says what an error means for a Redis that is not used yet.
func headline(err error) string {
	if redisstore.Answered(err) {
		return refusesLine
	}
	return awayLine
}

// why returns the fields that explain an error.
func (s *Shared) why(err error) []zap.Field {
	fields := []zap.Field{zap.Error(err)}
	if s.app.Redis.TLS == nil && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) {
		fields = append(fields, zap.String("hint", hangsUp))
	}
	return fields
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

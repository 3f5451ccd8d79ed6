package redisstore

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirhq/caddy-weir/limiter"
)

// renewAfter is how long stores that share a secret rely on it before they look again.
const renewAfter = 10 * time.Second

// agreement stores a secret unless there is one, and returns the one there is.
const agreement = "redis.call('SET', KEYS[1], ARGV[1], 'NX') return redis.call('GET', KEYS[1])"

func (s *Store) secretKey() string { return s.names.prefix + "secret" }

// meetNode agrees over a new connection. That of a cluster's node that has other slots is
// left as it is.
func (s *Store) meetNode(ctx context.Context, c *redis.Conn) error {
	err := s.agree(ctx, func(ctx context.Context, args ...any) *redis.Cmd {
		cmd := redis.NewCmd(ctx, args...)
		_ = c.Process(ctx, cmd) // the command has the error
		return cmd
	})
	if _, clustered := s.link.(*cluster); clustered && elsewhere(err) {
		return nil
	}
	return err
}

// elsewhere reports whether a node of a cluster says that a key is not its own, or that it
// knows of nobody whose it is.
func elsewhere(err error) bool {
	return notHere(err) || redis.IsClusterDownError(err)
}

// askHolder sends a command about the secret to the server that holds it.
func (s *Store) askHolder(ctx context.Context, args ...any) *redis.Cmd {
	return s.link.do(ctx, s.secretKey(), args...)
}

// agree makes all stores that share a server build the same keys: the first one's secret
// is kept there, and every new connection reads it. A server that lost it, having been
// restarted, is given back the one in use.
func (s *Store) agree(ctx context.Context, do func(ctx context.Context, args ...any) *redis.Cmd) error {
	s.agreeing.Lock()
	mine := s.secret
	s.agreeing.Unlock()
	got, err := do(ctx, "eval", agreement, 1, s.secretKey(), mine).Text()
	if err != nil {
		return err
	}
	secret := []byte(got)
	if len(secret) == 0 {
		return fmt.Errorf("the secret under %q is empty", s.secretKey())
	}
	s.agreeing.Lock()
	defer s.agreeing.Unlock()
	if s.hasher.Load() == nil || !bytes.Equal(secret, s.secret) {
		s.secret = secret
		s.hasher.Store(limiter.NewHasher(secret))
	}
	return nil
}

// renew agrees anew from time to time, in the background: a server that keeps running may lose
// the secret as well, by FLUSHALL or by eviction. Whoever connects next would then bring another
// one, and count apart from all stores that are connected already.
func (s *Store) renew() {
	if s.renewAfter <= 0 {
		return
	}
	last, now := s.renewed.Load(), int64(time.Since(s.opened))
	if now-last >= int64(s.renewAfter) && s.renewed.CompareAndSwap(last, now) {
		s.herald.nudge()
	}
}

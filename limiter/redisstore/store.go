package redisstore

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirhq/caddy-weir/limiter"
)

// A Store counts on Redis. Create it by [New], and close it by Close. It is safe for
// concurrent use.
type Store struct {
	opts  Options
	link  link
	names names

	// hasher is nil until the secret is known; agreeing guards secret.
	hasher   atomic.Pointer[limiter.Hasher]
	agreeing sync.Mutex
	secret   []byte

	terms      terms
	herald     scout         // asks for the secret
	renewAfter time.Duration // 0 if the secret is not shared through the server
	opened     time.Time
	renewed    atomic.Int64 // when the secret was last asked for, as a duration since opened
}

var _ limiter.Store = (*Store)(nil)

// Adjust implements [limiter.Store] in one round trip and one atomic step for each slot.
func (s *Store) Adjust(ctx context.Context, changes []limiter.Change) error {
	if len(changes) == 0 {
		return nil
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	h, err := s.meet(ctx)
	if err != nil {
		return err
	}
	keys := make([]string, len(changes))
	for i := range changes {
		kind, err := kindOf(changes[i].Limit.Algorithm)
		if err != nil {
			return err
		}
		keys[i] = s.names.build(h, kind, changes[i].Limit, changes[i].Key)
	}
	return s.bySlot(ctx, keys, func(ctx context.Context, group []int) error {
		return s.adjustTogether(ctx, pick(changes, group), pick(keys, group))
	})
}

func (s *Store) adjustTogether(ctx context.Context, changes []limiter.Change, keys []string) error {
	var needed set
	var packed []byte
	for i := range changes {
		kind, err := kindOf(changes[i].Limit.Algorithm)
		if err != nil {
			return err
		}
		needed |= 1 << kinds[kind].twin
		packed = appendChange(packed, kind, &changes[i])
	}
	return s.count(ctx, adjustScript(needed), keys, packed)
}

// Reset implements [limiter.Store].
func (s *Store) Reset(ctx context.Context, l *limiter.Limit, key string) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	h, err := s.meet(ctx)
	if err != nil {
		return err
	}
	kind, err := kindOf(l.Algorithm)
	if err != nil {
		return err
	}
	name := s.names.build(h, kind, l, key)
	return unavailable(s.link.do(ctx, name, "del", name).Err())
}

// meet returns the hasher. As long as there is none, it asks for the secret, once for all who
// want it.
func (s *Store) meet(ctx context.Context) (*limiter.Hasher, error) {
	if h := s.hasher.Load(); h != nil {
		s.renew()
		return h, nil
	}
	if err := s.herald.wait(ctx); err != nil {
		return nil, unavailable(err)
	}
	return s.hasher.Load(), nil
}

// count runs a script that returns for how many keys it did its work.
func (s *Store) count(ctx context.Context, script *script, keys []string, packed []byte) error {
	n, err := s.run(ctx, script, keys, packed).Int()
	if err == nil && n != len(keys) {
		err = errors.New("an answer for " + strconv.Itoa(n) + " keys instead of " + strconv.Itoa(len(keys)))
	}
	return unavailable(err)
}

// run calls a script by its name, and once more with its text if the server does not know
// it: then it has not run. Nothing else is repeated.
func (s *Store) run(ctx context.Context, script *script, keys []string, packed []byte) *redis.Cmd {
	args := make([]any, 0, 5+len(keys))
	args = append(args, "evalsha", script.sha, len(keys))
	for _, k := range keys {
		args = append(args, k)
	}
	args = append(args, packed)
	if s.opts.Now != nil {
		args = append(args, int64(limiter.At(s.opts.Now())))
	}
	cmd := s.link.do(ctx, keys[0], args...)
	if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		args[0], args[1] = "eval", script.text
		cmd = s.link.do(ctx, keys[0], args...)
	}
	return cmd
}

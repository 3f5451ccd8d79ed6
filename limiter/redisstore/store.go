package redisstore

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/weirhq/caddy-weir/limiter"
)

// A Store counts on one Redis server. Create it by [New], and close it by Close. It is safe
// for concurrent use.
type Store struct {
	opts   Options
	client *redis.Client
	names  names

	// hasher is nil until the secret is known; agreeing guards secret.
	hasher   atomic.Pointer[limiter.Hasher]
	agreeing sync.Mutex
	secret   []byte
}

var _ limiter.Store = (*Store)(nil)

// Take implements [limiter.Store] in one round trip.
func (s *Store) Take(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	if len(asks) == 0 {
		return nil
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	h, err := s.meet(ctx)
	if err != nil {
		return err
	}
	var needed set
	keys := make([]string, len(asks))
	packed := make([]byte, 0, 64*len(asks))
	for i := range asks {
		a := &asks[i]
		kind, err := kindOf(a.Limit.Algorithm)
		if err != nil {
			return err
		}
		needed |= 1 << kinds[kind].twin
		keys[i] = s.names.build(h, kind, a.Limit, a.Key)
		packed = appendAsk(packed, kind, a)
	}
	reply, err := s.run(ctx, takeScript(needed), keys, packed).Text()
	if err != nil {
		return unavailable(err)
	}
	return unavailable(readAnswers(reply, asks, results))
}

// Release implements [limiter.Store].
func (s *Store) Release(ctx context.Context, asks []limiter.Ask) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	h, err := s.meet(ctx)
	if err != nil {
		return err
	}
	var keys []string
	var packed []byte
	for i := range asks {
		if a := &asks[i]; a.Limit.Algorithm == limiter.InFlight {
			keys = append(keys, s.names.build(h, inFlight, a.Limit, a.Key))
			packed = appendLease(packed, a)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return s.count(ctx, releaseScript, keys, packed)
}

// Adjust implements [limiter.Store] in one round trip and one atomic step.
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
	var needed set
	var packed []byte
	keys := make([]string, len(changes))
	for i := range changes {
		c := &changes[i]
		kind, err := kindOf(c.Limit.Algorithm)
		if err != nil {
			return err
		}
		needed |= 1 << kinds[kind].twin
		keys[i] = s.names.build(h, kind, c.Limit, c.Key)
		packed = appendChange(packed, kind, c)
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
	return unavailable(s.client.Del(ctx, s.names.build(h, kind, l, key)).Err())
}

// meet returns the hasher. As long as there is none, it makes the client connect, which
// brings the secret.
func (s *Store) meet(ctx context.Context) (*limiter.Hasher, error) {
	if h := s.hasher.Load(); h != nil {
		return h, nil
	}
	if err := s.client.Ping(ctx).Err(); err != nil {
		return nil, unavailable(err)
	}
	if h := s.hasher.Load(); h != nil {
		return h, nil
	}
	return nil, unavailable(errors.New("no secret yet"))
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
	cmd := s.client.Do(ctx, args...)
	if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		args[0], args[1] = "eval", script.text
		cmd = s.client.Do(ctx, args...)
	}
	return cmd
}

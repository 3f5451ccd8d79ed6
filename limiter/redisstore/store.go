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

	renewAfter time.Duration // 0 if the secret is not shared through the server
	opened     time.Time
	renewed    atomic.Int64 // when the secret was last read, as a duration since opened
}

var _ limiter.Store = (*Store)(nil)

// Take implements [limiter.Store] in one round trip, if the states lie together: always on
// one server, and in a cluster those of one subject.
//
// In a cluster a limit that many subjects share lies in another slot, and slots cannot be
// asked in one step. They are asked in turn, the strictest limits first. Once one refuses,
// the later ones only say what they would, and what the earlier ones were charged is given
// back before Take returns, or soon after it if time is up. So no limit ever passes more
// than it should. Until the charge is given back, some microseconds as a rule, another
// request may be refused for its sake. What a sliding_window above 64 gets back is rounded
// down, and the window of a fixed_window or sliding_counter that it opened stays open,
// with nothing in it. If a slot cannot be reached, the earlier ones are given theirs back as
// well, save for leases, which whoever asked has to give back; but a request that has been refused
// before stays refused.
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
	keys := make([]string, len(asks))
	for i := range asks {
		kind, err := kindOf(asks[i].Limit.Algorithm)
		if err != nil {
			return err
		}
		keys[i] = s.names.build(h, kind, asks[i].Limit, asks[i].Key)
	}
	if s.apart(keys) {
		return s.takeApart(ctx, asks, keys, results, s.groups(keys))
	}
	err = s.takeTogether(ctx, asks, keys, results, false)
	if len(asks) > 1 && redis.IsTryAgainError(err) {
		// The slot is being moved, and the states lie on two nodes.
		return s.takeApart(ctx, asks, keys, results, split(s.groups(keys)[0]))
	}
	return err
}

// takeTogether answers asks whose states lie together. If the request is refused already,
// nothing is charged but what limits count that refuse it themselves.
func (s *Store) takeTogether(ctx context.Context, asks []limiter.Ask, keys []string, results []limiter.Result, refused bool) error {
	var needed set
	packed := make([]byte, 0, 64*len(asks))
	for i := range asks {
		kind, err := kindOf(asks[i].Limit.Algorithm)
		if err != nil {
			return err
		}
		needed |= 1 << kinds[kind].twin
		packed = appendAsk(packed, kind, &asks[i], refused)
	}
	reply, err := s.run(ctx, takeScript(needed), keys, packed).Text()
	if err != nil {
		return unavailable(err)
	}
	return unavailable(readAnswers(reply, asks, results))
}

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

// meet returns the hasher. As long as there is none, it asks for the secret.
func (s *Store) meet(ctx context.Context) (*limiter.Hasher, error) {
	if s.hasher.Load() != nil {
		s.renew(ctx)
		return s.hasher.Load(), nil
	}
	if err := s.agree(ctx, s.askHolder); err != nil {
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

package redisstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirhq/caddy-weir/limiter"
)

// Take implements [limiter.Store] in one round trip, if the states lie together: always on
// one server, and in a cluster those of one subject. Calls that come while others are under way
// share round trips; one that is alone never waits for others.
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
// before stays refused. Where all asks only look, nothing is charged, and the slots are asked at
// the same time; more than 16 of them may take up to the timeout again for each so many.
//
// Of ctx its deadline counts, if it comes before the timeout ends. That ctx is cancelled does not end the call,
// since a decision must not be lost half made because a client hung up.
func (s *Store) Take(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	if len(asks) == 0 {
		return nil
	}
	patience := s.opts.Timeout
	if end, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(end))
	}
	if patience <= 0 {
		return unavailable(errNoTime)
	}
	t := s.terms.begin(patience)
	defer t.finish()
	h, err := s.meet(t)
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
		if looking(asks) {
			return s.look(t, asks, keys, results)
		}
		return s.takeApart(t, asks, keys, results, s.groups(keys))
	}
	err = s.takeTogether(t, asks, keys, results, false)
	if len(asks) > 1 && redis.IsTryAgainError(err) {
		// The slot is being moved, and the states lie on two nodes.
		return s.takeApart(t, asks, keys, results, split(s.groups(keys)[0]))
	}
	return err
}

// takeTogether answers asks whose states lie together. If the request is refused already,
// nothing is charged but what limits count that refuse it themselves.
func (s *Store) takeTogether(ctx context.Context, asks []limiter.Ask, keys []string, results []limiter.Result, refused bool) error {
	slot := s.link.slot(keys[0])
	n, err := s.link.home(ctx, slot)
	if err != nil {
		return unavailable(err)
	}
	c := n.lane.newCall(keys, slot)
	if err := c.pack(asks, refused); err != nil {
		c.recycle()
		return err
	}
	a, err := s.pass(ctx, n, c)
	if err != nil {
		return unavailable(err)
	}
	a.read(asks, results)
	return nil
}

// pass takes a call to a server, which should have its slot, and gives the call up.
func (s *Store) pass(ctx context.Context, n *node, c *call) (answer, error) {
	slot := c.slot
	err := n.lane.pass(ctx, c)
	if err == errLate {
		s.link.heed(slot, n, err)
		return answer{}, err // and the call belongs to the lane
	}
	defer c.recycle()
	if err == nil {
		return c.answer, nil
	}
	s.link.heed(c.slot, n, err)
	switch {
	case wrongType(err):
		if err := s.clean(ctx, c.keys); err != nil {
			return answer{}, err
		}
	case !notHere(err) && !readOnly(err) && !redis.HasErrorPrefix(err, "NOSCRIPT"):
		return answer{}, err
	}
	return s.ask(ctx, c)
}

// ask asks for one request by itself, wherever its keys are by now.
func (s *Store) ask(ctx context.Context, c *call) (answer, error) {
	text, err := s.run(ctx, takeScript(c.needed), c.keys, c.packed).Text()
	if err != nil {
		return answer{}, err
	}
	r := reply{rest: text}
	if err := r.begin(); err != nil {
		return answer{}, err
	}
	return r.next(len(c.keys))
}

// clean removes what stands under keys and is no state at all, for whatever cannot be read counts as
// fresh.
func (s *Store) clean(ctx context.Context, keys []string) error {
	return s.run(ctx, cleanScript, keys, nil).Err()
}

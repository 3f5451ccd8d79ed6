package redisstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// callOf packs what Take would send.
func callOf(t testing.TB, s *Store, asks []limiter.Ask) *call {
	t.Helper()
	h, err := s.meet(background)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for i := range asks {
		kind, err := kindOf(asks[i].Limit.Algorithm)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, s.names.build(h, kind, asks[i].Limit, asks[i].Key))
	}
	slot := s.link.slot(keys[0])
	ctx, cancel := s.deadline(background)
	defer cancel()
	n, err := s.link.home(ctx, slot)
	if err != nil {
		t.Fatal(err)
	}
	c := n.lane.newCall(keys, slot)
	if err := c.pack(asks, false); err != nil {
		t.Fatal(err)
	}
	return c
}

// readAll reads the reply to a request that is alone.
func readAll(t testing.TB, text string, asks []limiter.Ask, results []limiter.Result) {
	t.Helper()
	r := reply{rest: text}
	if err := r.begin(); err != nil {
		t.Fatal(err)
	}
	a, err := r.next(len(asks))
	if err != nil {
		t.Fatal(err)
	}
	a.read(asks, results)
}

// together takes requests to a server by one trip, in that order, and returns what became of
// each.
func together(t testing.TB, s *Store, requests [][]limiter.Ask) ([][]limiter.Result, []error) {
	t.Helper()
	var calls []*call
	for _, asks := range requests {
		calls = append(calls, callOf(t, s, asks))
	}
	ctx, cancel := s.deadline(background)
	defer cancel()
	n, err := s.link.home(ctx, calls[0].slot)
	if err != nil {
		t.Fatal(err)
	}
	n.carry(ctx, append([]*call(nil), calls...))
	results, errs := make([][]limiter.Result, len(calls)), make([]error, len(calls))
	for i, c := range calls {
		results[i] = make([]limiter.Result, len(requests[i]))
		if errs[i] = c.await(ctx); errs[i] == nil {
			c.answer.read(requests[i], results[i])
			c.recycle()
		}
	}
	return results, errs
}

// crowded is a store whose calls are never alone: each shares its trip with one before it and one
// behind it.
type crowded struct {
	bared
	t testing.TB
}

func (s crowded) Take(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	if len(asks) == 0 {
		return nil
	}
	for i := range asks {
		if _, err := kindOf(asks[i].Limit.Algorithm); err != nil {
			return err
		}
	}
	other := func(name string, cost int64) []limiter.Ask {
		l := &limiter.Limit{Zone: "crowd", Algorithm: name, Events: 2, Window: time.Minute}
		return []limiter.Ask{{Limit: l, Key: name, Cost: cost, Lease: fmt.Sprint(cost)}, {Limit: l, Key: "both", Cost: 3}}
	}
	all, errs := together(s.t, s.Store, [][]limiter.Ask{other(limiter.FixedWindow, 1), asks, other(limiter.SlidingWindow, 2)})
	copy(results, all[1])
	return errs[1]
}

package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/weirhq/caddy-weir/limiter"
)

// abreast is how many slots are asked at the same time, where their order does not matter.
const abreast = 16

// Apart reports whether the asks of one request may be decided one after the other, slot by slot, so that
// others see charges that are taken back. The servers of a cluster do that.
func (s *Store) Apart() bool { return s.opts.clustered() }

// clustered reports whether the servers are those of a cluster.
func (o *Options) clustered() bool { return o.Sentinel == "" && (o.Cluster || len(o.Addresses) > 1) }

// apart reports whether some keys lie in other slots than others.
func (s *Store) apart(keys []string) bool {
	for _, key := range keys[1:] {
		if s.link.slot(key) != s.link.slot(keys[0]) {
			return true
		}
	}
	return false
}

// groups returns the indices of keys that lie together, a group for each slot.
func (s *Store) groups(keys []string) [][]int {
	var all [][]int
	at := make(map[int]int, 1)
	for i, key := range keys {
		slot := s.link.slot(key)
		g, known := at[slot]
		if !known {
			g = len(all)
			at[slot] = g
			all = append(all, nil)
		}
		all[g] = append(all[g], i)
	}
	return all
}

// pick returns the elements with those indices.
func pick[T any](all []T, group []int) []T {
	if len(group) == len(all) && slices.IsSorted(group) {
		return all
	}
	some := make([]T, len(group))
	for i, at := range group {
		some[i] = all[at]
	}
	return some
}

// bySlot calls do with each group of keys that lie together, some at the same time. A call
// over more slots than that takes longer, up to the timeout again for each so many.
//
// While a slot is moved to another node, several keys of it may lie on different ones. They
// are then handled one by one.
func (s *Store) bySlot(ctx context.Context, keys []string, do func(ctx context.Context, group []int) error) error {
	all := s.groups(keys)
	if len(all) == 1 {
		return orSplit(ctx, all[0], do)
	}
	errs := make([]error, len(all))
	for first := 0; first < len(all); first += abreast {
		var wg sync.WaitGroup
		for i := first; i < min(first+abreast, len(all)); i++ {
			wg.Go(func() { errs[i] = orSplit(ctx, all[i], do) })
		}
		wg.Wait()
		next, cancel := s.deadline(ctx)
		defer cancel()
		ctx = next
	}
	return errors.Join(errs...)
}

// orSplit calls do with a group, or with each of its keys if they are being moved apart.
func orSplit(ctx context.Context, group []int, do func(ctx context.Context, group []int) error) error {
	err := do(ctx, group)
	if len(group) == 1 || !redis.IsTryAgainError(err) {
		return err
	}
	err = nil
	for _, one := range split(group) {
		err = errors.Join(err, do(ctx, one))
	}
	return err
}

// looking reports whether asks only look.
func looking(asks []limiter.Ask) bool {
	for i := range asks {
		if asks[i].Cost > 0 {
			return false
		}
	}
	return true
}

// look answers asks that only look, each slot by itself.
func (s *Store) look(ctx context.Context, asks []limiter.Ask, keys []string, results []limiter.Result) error {
	return s.bySlot(ctx, keys, func(ctx context.Context, group []int) error {
		found := make([]limiter.Result, len(group))
		err := s.takeTogether(ctx, pick(asks, group), pick(keys, group), found, false)
		if err != nil {
			return err
		}
		for i, at := range group {
			results[at] = found[i]
		}
		return nil
	})
}

// A part is the asks of a request whose states lie together, with their answers.
type part struct {
	at      []int // where they stand among all
	asks    []limiter.Ask
	keys    []string
	results []limiter.Result
}

// takeApart asks groups of states in turn, see [Store.Take].
func (s *Store) takeApart(ctx context.Context, asks []limiter.Ask, keys []string, results []limiter.Result, groups [][]int) error {
	slices.SortStableFunc(groups, func(a, b []int) int { return compareRates(slowest(asks, a), slowest(asks, b)) })
	var charged []part
	var mended <-chan []part
	for len(groups) > 0 {
		group := groups[0]
		// Copies, since what gives back may outlive this call.
		p := part{group, slices.Clone(pick(asks, group)), pick(keys, group), make([]limiter.Result, len(group))}
		err := s.takeTogether(ctx, p.asks, p.keys, p.results, mended != nil)
		if len(group) > 1 && redis.IsTryAgainError(err) {
			groups = slices.Concat(split(group), groups[1:])
			continue
		}
		switch {
		case err == nil:
		case mended == nil:
			s.giveBack(charged, false)
			return err
		default:
			// The request is refused already, whatever these would have said.
			p.guess()
		}
		groups = groups[1:]
		for i, at := range group {
			results[at] = p.results[i]
		}
		switch {
		case mended != nil:
		case p.refused():
			mended = s.giveBack(charged, true)
		default:
			charged = append(charged, p)
		}
	}
	if mended == nil {
		return nil
	}
	select {
	case charged = <-mended:
	case <-ctx.Done():
		for _, p := range charged {
			p.mend()
		}
	}
	for _, p := range charged {
		for i, at := range p.at {
			results[at] = p.results[i]
		}
	}
	return nil
}

// split returns a group for each index.
func split(group []int) [][]int {
	return slices.Collect(slices.Chunk(group, 1))
}

// slowest returns the limit that allows the least in the long run. It is the most likely to
// refuse, and a limit that many subjects share, on whose charge others depend, is as a rule
// the least likely.
func slowest(asks []limiter.Ask, group []int) *limiter.Limit {
	l := asks[group[0]].Limit
	for _, at := range group[1:] {
		if compareRates(asks[at].Limit, l) < 0 {
			l = asks[at].Limit
		}
	}
	return l
}

func compareRates(a, b *limiter.Limit) int {
	x, y := float64(a.Events)*float64(b.Window), float64(b.Events)*float64(a.Window)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// refused reports whether the answers refuse the request.
func (p *part) refused() bool {
	for i := range p.asks {
		if !p.asks[i].Limit.Shadow && !p.results[i].Allowed {
			return true
		}
	}
	return false
}

// guess makes answers of limits that could not be asked and that nothing hangs on any more: the
// least that they can have left, for as long as that can last.
func (p *part) guess() {
	for i := range p.asks {
		l := p.asks[i].Limit
		p.results[i] = limiter.Result{Allowed: true, Max: l.Max(), Reset: l.Window}
	}
}

// giveBack gives back what parts were charged, in the background, since it has to be done
// even if the request's time is up. It is tried once: after a timeout it may have been
// done. The parts are then sent as they stand afterwards.
func (s *Store) giveBack(parts []part, leases bool) <-chan []part {
	done := make(chan []part, 1)
	mended := slices.Clone(parts)
	for i := range mended {
		mended[i].results = slices.Clone(mended[i].results)
	}
	go func() {
		ctx, cancel := s.deadline(context.Background())
		defer cancel()
		for i := range mended {
			s.giveBackPart(ctx, &mended[i], leases)
		}
		done <- mended
	}()
	return done
}

func (s *Store) giveBackPart(ctx context.Context, p *part, leases bool) {
	var changes []limiter.Change
	var keys []string
	var held []int
	looks := slices.Clone(p.asks)
	for i := range p.asks {
		a, r := &p.asks[i], &p.results[i]
		looks[i].Cost = 0
		switch {
		case a.Cost <= 0 || !r.Allowed:
		case a.Limit.Algorithm == limiter.InFlight:
			held = append(held, i)
		default:
			changes = append(changes, limiter.Change{Limit: a.Limit, Key: a.Key, Delta: -a.Cost, Spent: r.Now})
			keys = append(keys, p.keys[i])
		}
	}
	p.mend()
	// What fails here stays charged, which errs on the safe side.
	err := s.bySlot(ctx, keys, func(ctx context.Context, group []int) error {
		return s.adjustTogether(ctx, pick(changes, group), pick(keys, group))
	})
	if leases && len(held) > 0 {
		err = errors.Join(err, s.lease(ctx, pick(p.asks, held), 0))
	}
	if err != nil {
		return
	}
	now := make([]limiter.Result, len(looks))
	if s.takeTogether(ctx, looks, p.keys, now, false) != nil {
		return
	}
	for i := range now {
		p.results[i].Remaining, p.results[i].Reset = now[i].Remaining, now[i].Reset
	}
}

// mend makes the answers say what is left once the charge is given back.
func (p *part) mend() {
	for i := range p.asks {
		a, r := &p.asks[i], &p.results[i]
		switch {
		case !r.Allowed || a.Cost <= 0:
		case a.Limit.Algorithm == limiter.InFlight:
			r.Remaining = min(r.Remaining+1, r.Max)
		default:
			r.Remaining = min(r.Remaining+a.Cost, r.Max)
		}
	}
}

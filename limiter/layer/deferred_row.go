package layer

import (
	"context"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// A rowName is what names a state.
type rowName struct {
	zone, algorithm string
	index           int
	key             string
}

// A row is what is to be done about a key.
type row struct {
	name  rowName
	limit *limiter.Limit // as it was asked last
	due   time.Time      // when it is sent
	// inside is what requests took that are under way, counted what is to be sent.
	inside, counted int64
	asked           bool // what others counted is wanted
	over            bool // Over was told that nothing is left

	view view

	// What was sent without an answer, and the receipts for that and for the last
	// that had one.
	sent         int64
	trying, last uint64
}

// A view is what the store said of a key when it was read.
type view struct {
	others int64     // what was used, less what is counted here as well
	full   bool      // nothing was left
	free   time.Time // when a cost of 1 would pass
	until  time.Time // when all of it has left its window
}

// live reports whether the view still counts.
func (v *view) live(now time.Time) bool { return now.Before(v.until) }

// left returns what is left by the view, where own is what is left by what was counted here.
func (v *view) left(now time.Time, own int64) int64 {
	switch {
	case !v.live(now):
		return own
	case v.full:
		// It may be that more was counted than fits, of which nothing is known.
		return 0
	}
	return max(own-v.others, 0)
}

// evict drops a row, found by chance, about which there is nothing to do. The shard is locked.
func (sh *countShard) evict() bool {
	tries := 0
	for name, r := range sh.rows {
		if r.idle() && r.last == 0 && r.inside == 0 {
			delete(sh.rows, name)
			return true
		}
		if tries++; tries == evictTries {
			return false
		}
	}
	return false
}

// idle reports whether there is nothing to tell the store or to ask it.
func (r *row) idle() bool { return r.counted == 0 && r.sent == 0 && r.trying == 0 && !r.asked }

// becomes notes whether a key has something left, and reports whether Over is to be told. had
// says that it had until now.
func (r *row) becomes(had bool, left int64) bool {
	if had || left > 0 {
		r.over = false
	}
	if r.over || left > 0 {
		return false
	}
	r.over = true
	return true
}

// see makes a view of what the store said, given what is counted here.
func (r *row) see(now time.Time, told *limiter.Result, own limiter.Result) {
	sent := max(own.Max-own.Remaining-r.counted-r.inside, 0)
	r.view = view{
		others: max(told.Max-told.Remaining-sent, 0),
		full:   told.Remaining == 0,
		free:   now.Add(told.Wait),
		until:  now.Add(told.Reset),
	}
}

// look returns how a key stands here. The shard is locked.
func (sh *countShard) look(local limiter.Store, l *limiter.Limit, key string) limiter.Result {
	sh.ask[0] = limiter.Ask{Limit: l, Key: key}
	if err := local.Take(context.Background(), sh.ask[:], sh.result[:]); err != nil {
		return limiter.Result{Max: l.Max(), Remaining: l.Max()}
	}
	return sh.result[0]
}

// standing returns how a key stands here, by the view as well. The shard is locked.
func (sh *countShard) standing(local limiter.Store, r *row, now time.Time) limiter.Result {
	res := sh.look(local, r.limit, r.name.key)
	res.Origin = limiter.Cached
	if r.view.live(now) {
		res.Remaining = r.view.left(now, res.Remaining)
		res.Reset = max(res.Reset, r.view.until.Sub(now))
		if res.Remaining == 0 {
			res.Wait = max(res.Wait, min(max(r.view.free.Sub(now), r.limit.Deferred), r.view.until.Sub(now)))
		}
	}
	return res
}

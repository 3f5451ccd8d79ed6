package layer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

const (
	// sendBatch is how many keys are sent in one call.
	sendBatch = 64
	// mostSendFailures is after how many failed calls a server is left alone until the
	// next round. One may be about a slot of a cluster.
	mostSendFailures = 2
	// receiptLife is how long the store keeps a receipt that nobody asks for.
	receiptLife = time.Hour
)

// send sends what is due, or all there is, and reads back how the keys stand. What is for one server
// goes together, so that one that is away holds up no other.
func (d *Deferred) send(ctx context.Context, all bool) error {
	var failed error
	for _, rows := range d.gather(all) {
		failures := 0
		for batch := range slices.Chunk(rows, sendBatch) {
			if err := d.sendBatch(ctx, batch); err != nil {
				failed = errors.Join(failed, err)
				if failures++; failures == mostSendFailures {
					break
				}
			}
		}
	}
	return failed
}

// gather returns the rows about which the store is to be asked now, by server, and drops those about which
// there is nothing left to do.
func (d *Deferred) gather(all bool) map[int][]*row {
	now := time.Now()
	due := make(map[int][]*row)
	for i := range d.shards {
		sh := &d.shards[i]
		sh.Lock()
		for name, r := range sh.rows {
			if !all && now.Before(r.due) {
				continue
			}
			r.due = now.Add(r.limit.Deferred - time.Duration(d.shortest.Load()))
			switch {
			case !r.idle() || r.last != 0: // if only to give its receipt back
				lane := d.o.Lane([]limiter.Ask{{Limit: r.limit, Key: name.key}})
				due[lane] = append(due[lane], r)
			case r.over && d.full(sh, r, now) || r.inside > 0 || r.view.live(now):
			default:
				delete(sh.rows, name)
			}
		}
		sh.Unlock()
	}
	return due
}

// full reports whether a key has nothing left here, and notes it. The shard is locked.
func (d *Deferred) full(sh *countShard, r *row, now time.Time) bool {
	left := sh.standing(d.local, r, now).Remaining
	r.becomes(left > 0, left)
	return left == 0
}

// sendBatch sends rows in one step of the store, or one for each of its parts.
func (d *Deferred) sendBatch(ctx context.Context, rows []*row) error {
	d.sending.Lock()
	defer d.sending.Unlock()
	if err := d.askReceipts(ctx, rows); err != nil {
		return err
	}
	changes, looks := d.load(rows)
	if len(changes) > 0 {
		err := d.store.Adjust(ctx, changes)
		d.sent(rows, err)
		if err != nil {
			return err
		}
	}
	return d.readBack(ctx, looks)
}

// askReceipts finds out what became of what was sent without an answer.
func (d *Deferred) askReceipts(ctx context.Context, rows []*row) error {
	var unsure []*row
	var asks []limiter.Ask
	for _, r := range rows {
		// Only who sends touches trying.
		if r.trying != 0 {
			unsure = append(unsure, r)
			asks = append(asks, limiter.Ask{Limit: d.receiptOf(r, r.trying), Key: r.name.key})
		}
	}
	if len(unsure) == 0 {
		return nil
	}
	results := make([]limiter.Result, len(asks))
	if err := d.store.Take(ctx, asks, results); err != nil {
		return err
	}
	for i, r := range unsure {
		sh := d.lockOf(r)
		if results[i].Remaining == 0 {
			r.last = r.trying
		} else {
			r.counted += r.sent
		}
		r.sent, r.trying = 0, 0
		sh.Unlock()
	}
	return nil
}

// load takes what is counted in rows into changes, and returns what is to be read back.
func (d *Deferred) load(rows []*row) (changes []limiter.Change, looks []limiter.Ask) {
	for _, r := range rows {
		sh := d.lockOf(r)
		n := r.counted
		if n > 0 {
			// What has left its window since it was counted is not sent.
			own := sh.look(d.local, r.limit, r.name.key)
			n = min(n, own.Max-own.Remaining)
		}
		key := r.name.key
		if n != 0 {
			changes = append(changes, limiter.Change{Limit: r.limit, Key: key, Delta: n})
		}
		if d.o.Receipts {
			if n != 0 {
				r.trying = d.receipt.Add(1)
				changes = append(changes, limiter.Change{Limit: d.receiptOf(r, r.trying), Key: key, Delta: 1})
			}
			if r.last != 0 {
				changes = append(changes, limiter.Change{Limit: d.receiptOf(r, r.last), Key: key, Delta: -1})
			}
		}
		if r.counted != 0 || r.asked {
			looks = append(looks, limiter.Ask{Limit: r.limit, Key: key})
		}
		r.sent, r.counted, r.asked = n, 0, false
		sh.Unlock()
	}
	return changes, looks
}

// sent notes what became of a batch.
func (d *Deferred) sent(rows []*row, err error) {
	for _, r := range rows {
		sh := d.lockOf(r)
		switch {
		case err == nil:
			r.last, r.sent, r.trying = r.trying, 0, 0
		case r.trying == 0:
			// Nothing was sent, or nobody can tell what became of it.
			r.counted += r.sent
			r.sent = 0
		}
		r.asked = r.asked || err != nil
		sh.Unlock()
	}
}

// readBack asks the store how keys stand.
func (d *Deferred) readBack(ctx context.Context, looks []limiter.Ask) error {
	if len(looks) == 0 {
		return nil
	}
	results := make([]limiter.Result, len(looks))
	err := d.store.Take(ctx, looks, results)
	for i := range looks {
		a := &looks[i]
		sh := &d.shards[d.shard(a.Key)]
		sh.Lock()
		r := d.row(sh, a.Limit, a.Key)
		if r == nil {
			sh.Unlock()
			continue
		}
		if err != nil {
			r.asked = true
			sh.Unlock()
			continue
		}
		now := time.Now()
		had := sh.standing(d.local, r, now).Remaining > 0
		r.see(now, &results[i], sh.look(d.local, r.limit, a.Key))
		at, limit := sh.standing(d.local, r, now), r.limit
		over := r.becomes(had, at.Remaining)
		sh.Unlock()
		if over {
			d.tell(limiter.Ask{Limit: limit, Key: a.Key, Cost: 1}, at)
		}
	}
	return err
}

func (d *Deferred) lockOf(r *row) *countShard {
	sh := &d.shards[d.shard(r.name.key)]
	sh.Lock()
	return sh
}

// receiptOf returns the limit that is a receipt of that number: a bucket of one, which is taken
// when the receipt is written. It lies beside the key itself, also in a cluster. No zone of a
// configuration has such a name.
func (d *Deferred) receiptOf(r *row, number uint64) *limiter.Limit {
	return &limiter.Limit{
		Zone: r.name.zone + "\x00" + d.node, Algorithm: limiter.TokenBucket, Index: int(number),
		Events: 1, Window: receiptLife,
	}
}

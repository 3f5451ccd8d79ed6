package config

import (
	"context"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/internal/observe"
)

const (
	// endsEvery is how often it is looked for bans that have ended, at most.
	endsEvery = time.Second
	// endsShare is the most of the time that is spent on that, as one part of so many.
	endsShare = 20
)

// ends finds the bans of a list that end, each once. What is not there any more before its time was
// lifted.
type ends struct {
	bans blocklist.Bans // as they were looked at last
	at   time.Time      // and when
	next time.Time      // when the first of those in force ends; zero if none does
}

// begin takes what there is: what ended before is told by nobody.
func (e *ends) begin(bans blocklist.Bans, now time.Time) {
	e.bans, e.at, e.next = bans, now, time.Time{}
	for b := range bans.All() {
		e.wait(b, now)
	}
}

// wait notes a ban that may be the first to end.
func (e *ends) wait(b *blocklist.Ban, now time.Time) {
	if !b.Over(now) && (e.next.IsZero() || b.Until.Before(e.next)) {
		e.next = b.Until
	}
}

// look tells of those that were in force when it was looked at last, and are not now.
func (e *ends) look(bans blocklist.Bans, now time.Time, ended func(b *blocklist.Ban, lifted bool)) {
	if bans == e.bans && (e.next.IsZero() || now.Before(e.next)) {
		return
	}
	for b := range e.bans.All() {
		if b.Over(e.at) {
			continue
		}
		is := bans.Get(b.ID())
		switch {
		case is == nil:
			ended(b, !b.Over(now))
		case is.Over(now):
			ended(is, false)
		}
	}
	e.begin(bans, now)
}

// watchEnds tells of bans that end here until ctx is done: because they are over, or since somebody
// lifted them.
func (c *core) watchEnds(ctx context.Context) {
	var e ends
	e.begin(c.state().content.Bans, Now())
	for {
		begun := time.Now()
		e.look(c.state().content.Bans, Now(), c.ended)
		pause := time.NewTimer(max(endsEvery, endsShare*time.Since(begun)))
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// ended tells of a ban that ended.
func (c *core) ended(b *blocklist.Ban, lifted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for l := range c.lists {
		l.ended(observe.Ended{Ban: b, Lifted: lifted})
		return // each configuration would say the same
	}
}

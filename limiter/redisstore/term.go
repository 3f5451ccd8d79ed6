package redisstore

import (
	"context"
	"sync"
	"time"
)

// A term is the time that a decision may take: a context that knows of nothing but its end.
// It is used again, which other contexts cannot be, so that it costs no garbage.
type term struct {
	end   time.Time
	over  chan struct{} // closed at the end
	timer *time.Timer
	home  *terms
}

// terms are those that are not in use.
type terms struct{ pool sync.Pool }

// begin returns a term that ends in so much time. Whoever began it finishes it.
func (p *terms) begin(length time.Duration) *term {
	t, ok := p.pool.Get().(*term)
	if ok {
		t.timer.Reset(length)
	} else {
		t = &term{over: make(chan struct{}), home: p}
		t.timer = time.AfterFunc(length, func() { close(t.over) })
	}
	t.end = time.Now().Add(length)
	return t
}

// finish gives the term up, after which nobody may look at it.
func (t *term) finish() {
	if t.timer.Stop() {
		t.home.pool.Put(t)
	}
}

// Deadline implements [context.Context].
func (t *term) Deadline() (time.Time, bool) { return t.end, true }

// Done implements [context.Context].
func (t *term) Done() <-chan struct{} { return t.over }

// Err implements [context.Context].
func (t *term) Err() error {
	select {
	case <-t.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// Value implements [context.Context].
func (*term) Value(any) any { return nil }

var _ context.Context = (*term)(nil)

package redisstore

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// calm is about how long a scout rests before it is sent out for mere suspicion again, so
// that an outage of many servers does not bring a storm of questions (L94).
const calm = 100 * time.Millisecond

// A scout finds out where the servers are: one look at a time, whoever and however many
// want it.
type scout struct {
	look    func(ctx context.Context) error
	timeout time.Duration // of a look

	mu      sync.Mutex
	current *scouting // nil if there is none under way
	rests   time.Time // until when nudges are passed over
	closed  bool
}

// A scouting is a look that is under way, or over once done is closed.
type scouting struct {
	done chan struct{}
	err  error
}

// nudge sends the scout out in the background, unless it has just been out.
func (s *scout) nudge() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil && !s.closed && time.Now().After(s.rests) {
		s.begin()
	}
}

// wait waits for the look that is under way, or for one that begins now.
func (s *scout) wait(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	if s.current == nil {
		s.begin()
	}
	l := s.current
	s.mu.Unlock()
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin is called with mu held.
func (s *scout) begin() {
	l := &scouting{done: make(chan struct{})}
	s.current = l
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
		defer cancel()
		l.err = s.look(ctx)
		s.mu.Lock()
		s.current = nil
		s.rests = time.Now().Add(calm/2 + rand.N(calm))
		s.mu.Unlock()
		close(l.done)
	}()
}

// close makes the scout stay at home. A look that is under way ends by itself.
func (s *scout) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

func (s *scout) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

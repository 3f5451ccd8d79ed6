package config

import (
	"context"
	"fmt"

	"github.com/weirhq/caddy-weir/limiter"
)

// errGone says that a configuration is no longer there.
var errGone = fmt.Errorf("the configuration has been replaced: %w", limiter.ErrUnavailable)

// open has the list read, and followed once the configuration runs. On Redis that takes a connection
// that listens, and rights that counting needs none of: a list that nothing asks for stays closed.
// It is opened by handlers that apply it, by zones that ban, by what the configuration says of it,
// and by whoever asks at the admin endpoint. In a file it always is.
func (l *List) open() (*core, error) {
	if c := l.core.Load(); c != nil {
		return c, nil
	}
	l.opening.Lock()
	defer l.opening.Unlock()
	if c := l.core.Load(); c != nil {
		return c, nil
	}
	if l.gone {
		return nil, errGone
	}
	c, err := l.holds.list(l.app)
	if err != nil {
		return nil, fmt.Errorf("block: %w", err)
	}
	l.core.Store(c)
	c.join(l)
	close(l.opened)
	return c, nil
}

// release gives the list back. It is not opened any more.
func (l *List) release() error {
	l.opening.Lock()
	defer l.opening.Unlock()
	l.gone = true
	if c := l.core.Load(); c != nil {
		c.leave(l)
	}
	return l.holds.release()
}

// Use opens the list for somebody who asks about it while the configuration runs, and then waits for
// a moment until its keeper has said what there is.
func (l *List) Use(ctx context.Context) error {
	c, err := l.open()
	if err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, applyWait)
	defer cancel()
	select {
	case <-c.answered:
	case <-wait.Done():
	}
	return nil
}

// state is how what was made at run time is: as if there were nothing while the list is closed.
func (l *List) state() state {
	if c := l.core.Load(); c != nil {
		return c.state()
	}
	return state{}
}

// isOpen reports whether the list is open.
func (l *List) isOpen() bool { return l.core.Load() != nil }

// Applied reports whether any handler of the configuration applies the list to what passes it.
func (s *Shared) Applied() bool {
	if s.checkers.Load() > 0 {
		return true
	}
	for _, g := range s.Gates() {
		if g.shared != nil && !g.off {
			return true
		}
	}
	return false
}

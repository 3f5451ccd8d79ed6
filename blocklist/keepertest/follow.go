package keepertest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
)

// patience is how long tests wait for what should come at once.
const patience = 20 * time.Second

// A Watched is a list that is followed in the background.
type Watched struct {
	mu     sync.Mutex
	now    blocklist.Content
	seen   []uint64
	change chan struct{}
	errs   []error
}

// Follow watches a keeper until the test ends.
func Follow(t testing.TB, k blocklist.Keeper) *Watched {
	w := &Watched{change: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = k.Watch(ctx, func(c blocklist.Content) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.now, w.seen = c, append(w.seen, c.Version)
			select {
			case w.change <- struct{}{}:
			default:
			}
		}, func(err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.errs = append(w.errs, err)
			select {
			case w.change <- struct{}{}:
			default:
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return w
}

// Content returns what was told last.
func (w *Watched) Content() blocklist.Content {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// Troubles returns what was told of troubles, nil for their ends.
func (w *Watched) Troubles() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.errs)
}

// AwaitTrouble waits until trouble is the last thing that was told of, or that it is over.
func (w *Watched) AwaitTrouble(t testing.TB, trouble bool) {
	t.Helper()
	w.Await(t, fmt.Sprintf("trouble %v", trouble), func(blocklist.Content) bool {
		all := w.Troubles()
		return len(all) > 0 && (all[len(all)-1] != nil) == trouble
	})
}

// Await waits until the content is as wanted.
func (w *Watched) Await(t testing.TB, what string, ok func(blocklist.Content) bool) blocklist.Content {
	t.Helper()
	deadline := time.After(patience)
	for {
		if c := w.Content(); ok(c) {
			return c
		}
		select {
		case <-w.change:
		case <-deadline:
			t.Fatalf("%s: still %q at version %d; troubles %v", what, names(w.Content()), w.Content().Version, w.Troubles())
		}
	}
}

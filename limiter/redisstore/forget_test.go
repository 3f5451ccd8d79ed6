package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
)

// An ear is somebody who listens.
type ear struct {
	mu     sync.Mutex
	names  []string
	missed int
	heard  int
}

func (e *ear) ForgetName(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.names = append(e.names, name)
}

func (e *ear) Clear() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.missed++
	e.heard = 0
}

func (e *ear) Heard() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard++
}

func (e *ear) told() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.heard
}

// sure waits until the ear was told so many times, since it began to listen, that it hears all.
func (e *ear) sure(t *testing.T, times int) {
	t.Helper()
	eventually(t, func() error {
		if n := e.told(); n < times {
			return fmt.Errorf("told %d times that all is heard", n)
		}
		return nil
	})
}

// listening has a store listened to until the test ends.
func listening(t *testing.T, s *Store) *ear {
	t.Helper()
	e := new(ear)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { s.ListenFreed(ctx, e) })
	t.Cleanup(func() {
		cancel()
		work.Wait()
	})
	return e
}

// begun waits until the ear has begun to listen so many times.
func (e *ear) begun(t *testing.T, times int) {
	t.Helper()
	eventually(t, func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.missed < times {
			return errors.New("nobody listens")
		}
		return nil
	})
}

// hears waits until the ear has heard a name.
func (e *ear) hears(t *testing.T, name string) {
	t.Helper()
	eventually(t, func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		if !slices.Contains(e.names, name) {
			return errors.New("not heard: " + name)
		}
		return nil
	})
}

// All stores under a prefix hear what one of them tells, by the name that stands on the server, and
// nothing else; they subscribe anew when they have lost the server.
func TestFreedIsTold(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	teller, other := open(t, s, Options{Timeout: time.Second}), open(t, s, Options{Timeout: time.Second})
	apart := open(t, s, Options{Prefix: "apart:", Timeout: time.Second})
	near, far, deaf := listening(t, teller), listening(t, other), listening(t, apart)
	l := limitOf(limiter.SlidingWindow, 10)
	for round := range 2 {
		for _, e := range []*ear{near, far, deaf} {
			e.begun(t, round+1)
		}
		if err := teller.TellFreed(background, l, "k"); err != nil {
			t.Fatal(err)
		}
		name := teller.Name(l, "k")
		if !strings.HasPrefix(name, "weir:api:w0:{") || other.Name(l, "k") != name {
			t.Errorf("names %q and %q", name, other.Name(l, "k"))
		}
		near.hears(t, name)
		far.hears(t, name)
		for _, e := range []*ear{near, far} {
			e.mu.Lock()
			e.names = nil
			e.mu.Unlock()
		}
		if round == 0 {
			s.Kill()
			if err := teller.TellFreed(background, l, "k"); !isUnavailable(err) {
				t.Errorf("without a server: %v", err)
			}
			s.Restart()
			eventually(t, func() error { return teller.Ping(background) })
		}
	}
	if len(deaf.names) > 0 {
		t.Errorf("another prefix hears %q", deaf.names)
	}
}

// Who listens is told again and again that all is heard, while nothing is told at all. Of a server that falls silent
// with its connection open this is not said any more, and soon it is given up.
func TestHeardWhileListening(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	store, e := open(t, s, Options{Timeout: time.Second}), new(ear)
	lost := make(chan error, 1)
	go func() {
		_, err := store.listen(background, e)
		lost <- err
	}()
	e.sure(t, 3)
	s.Pause()
	before := e.told()
	eventually(t, func() error {
		if len(lost) == 0 {
			return errors.New("a server that is silent is listened to")
		}
		return nil
	})
	// An answer may have been on its way when it fell silent.
	if more := e.told() - before; more > 1 {
		t.Errorf("told %d times that all is heard of a server that is silent", more)
	}
	s.Resume()
	again := listening(t, store)
	again.begun(t, 1)
	again.sure(t, 2)
}

// Where this process may not tell anything, others may not either: nobody says that all is heard.
func TestNotHeardWithoutRights(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	s.Do("ACL SETUSER deaf on >sesame ~weir:* &weir:* +@all -publish")
	mute := listening(t, open(t, s, Options{Username: "deaf", Password: "sesame", Timeout: time.Second}))
	mute.begun(t, 1)
	listening(t, open(t, s, Options{Timeout: time.Second})).sure(t, 3)
	if n := mute.told(); n > 0 {
		t.Errorf("told %d times that all is heard", n)
	}
}

// In a cluster it does not matter which node is told, nor which is listened to.
func TestFreedOverCluster(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Options{})
	o := Options{Addresses: c.Addrs(), Timeout: 2 * time.Second}
	stores := []*Store{open(t, c.Masters[0], o), open(t, c.Masters[0], o), open(t, c.Masters[0], o)}
	var ears []*ear
	for _, s := range stores {
		eventually(t, func() error { return s.Ping(background) })
		e := listening(t, s)
		e.begun(t, 1)
		ears = append(ears, e)
	}
	for i, key := range []string{"one", "two", "three", "four"} {
		l := limitOf(limiter.TokenBucket, 10)
		if err := stores[i%3].TellFreed(background, l, key); err != nil {
			t.Fatal(err)
		}
		for _, e := range ears {
			e.hears(t, stores[0].Name(l, key))
		}
	}
}

// A user without the right to the channel counts and resets as ever, and is warned of.
func TestFreedWithoutRights(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	const rights = "ACL SETUSER weir on >sesame ~weir:* +eval +evalsha +get +set +getrange +setrange +del +strlen +pexpire +time +select +ping +info "
	for more, want := range map[string]bool{
		"resetchannels -publish -subscribe":         true,
		"resetchannels +publish +subscribe":         true,
		"&weir:* +publish -subscribe":               true,
		"resetchannels &weir:* +publish +subscribe": false,
	} {
		s.Do(rights + more)
		store := open(t, s, Options{Username: "weir", Password: "sesame", Timeout: 5 * time.Second})
		l := limitOf(limiter.FixedWindow, 10)
		take(t, store, l, "k", 1)
		if err := store.Reset(background, l, "k"); err != nil {
			t.Errorf("%s: reset: %v", more, err)
		}
		found, err := store.InspectChannel(background)
		if err != nil || (len(found) == 1 && found[0].Message == muted) != want || len(found) > 1 {
			t.Errorf("%s: %+v, %v", more, found, err)
		}
	}
	s.Kill()
	store := open(t, s, Options{Timeout: time.Second})
	if _, err := store.InspectChannel(background); !isUnavailable(err) {
		t.Errorf("without a server: %v", err)
	}
}

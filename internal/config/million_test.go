package config

import (
	"context"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// A reload with a million keys in memory keeps every count, copies none, and holds nobody
// up.
func TestReloadWithAMillionKeys(t *testing.T) {
	const (
		app  = `{"max_keys": 1100000}`
		zone = `{"rate_limits": {"crowd": {"key": "{http.request.header.X-Key}", "max_events": 2, "window": "1h"}}}`
		keys = 1_000_000
	)
	old := build(t, app)
	asks, results := make([]limiter.Ask, 1), make([]limiter.Result, 1)
	l := &limiter.Limit{Zone: "crowd", Algorithm: limiter.SlidingWindow, Events: 2, Window: time.Hour}
	for i := range keys {
		asks[0] = limiter.Ask{Limit: l, Key: strconv.Itoa(i), Cost: 1 + int64(i%2)}
		if err := old.memory.Take(t.Context(), asks, results); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(m *Meter, key int) bool {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Key", strconv.Itoa(key))
		d, err := m.Read(r)
		if err != nil {
			t.Error(err)
			return false
		}
		defer m.Free(d)
		return d.Allowed
	}

	// Clients that are at their limit ask on and on, of the old handler and the new.
	meters := make(chan *Meter, 1)
	stop := make(chan struct{})
	var slowest time.Duration
	var clients sync.WaitGroup
	clients.Go(func() {
		m := <-meters
		for i := 1; ; i = (i + 2) % keys {
			select {
			case m = <-meters:
			case <-stop:
				return
			default:
			}
			start := time.Now()
			if ask(m, i) {
				t.Errorf("key %d passed", i)
			}
			slowest = max(slowest, time.Since(start))
		}
	})
	meters <- old.meter(t, zone)
	ctx, cancel := context.WithCancel(t.Context())
	var runs sync.WaitGroup
	for range 3 {
		fresh := build(t, app)
		runs.Go(func() { fresh.Run(ctx) })
		m := fresh.meter(t, zone)
		meters <- m
		old.Close()
		if n := fresh.memory.Len(); n != keys {
			t.Fatalf("%d keys are held after a reload, want %d", n, keys)
		}
		old = fresh
	}
	m := old.meter(t, zone)
	for i := 0; i < keys; i += 1009 {
		if first, second := ask(m, i), ask(m, i); first != (i%2 == 0) || second {
			t.Errorf("key %d, which had %d left: %t, then %t", i, 1-i%2, first, second)
		}
	}
	close(stop)
	clients.Wait()
	cancel()
	runs.Wait()
	// A pass over all keys would take longer; what is below is the machine's.
	if slowest > 250*time.Millisecond {
		t.Errorf("a decision took %s", slowest)
	}
}

package config

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
)

// TestPrices: header before status, status before its class, and bytes last.
func TestPrices(t *testing.T) {
	all := &Settle{Status: map[string]int64{"304": 1, "4xx": 2, "404": 3, "5xx": 0}, Header: "x-cost", Bytes: 1000}
	few := &Settle{Status: map[string]int64{"5xx": 0}}
	tests := []struct {
		name   string
		settle *Settle
		seen   Response
		want   int64
	}{
		{"status", all, Response{Status: 304}, 1},
		{"class", all, Response{Status: 403}, 2},
		{"status before class", all, Response{Status: 404}, 3},
		{"nothing", all, Response{Status: 503}, 0},
		{"header before status", all, Response{Status: 304, Header: http.Header{"X-Cost": {" 7 "}}}, 7},
		{"header that is no number", all, Response{Status: 304, Header: http.Header{"X-Cost": {"much"}}}, 1},
		{"header below zero", all, Response{Status: 304, Header: http.Header{"X-Cost": {"-7"}}}, 1},
		{"header beyond all bounds", all, Response{Header: http.Header{"X-Cost": {"5000000000"}}}, limiter.MaxEvents},
		{"no bytes", all, Response{Status: 200}, 0},
		{"a part of the unit", all, Response{Status: 200, Bytes: 1}, 1},
		{"a unit and a part", all, Response{Status: 206, Bytes: 1001}, 2},
		{"nobody knows", all, Response{Bytes: 5000}, 20},
		{"no price", few, Response{Status: 200, Bytes: 5000}, 20},
	}
	for _, tt := range tests {
		if got := tt.settle.compile().of(&tt.seen, 20); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// settleStores are the configurations that settling is tried with.
func settleStores(t *testing.T) map[string]string {
	t.Helper()
	server := redistest.Start(t, redistest.Options{})
	return map[string]string{
		"memory": `{}`,
		"redis":  `{"redis": {"addresses": ["` + server.Addr() + `"], "timeout": "10s"}}`,
	}
}

// visit has a request decided and, if it may pass, answered with that status. It reports
// whether it was served.
func (m *Meter) visit(t *testing.T, r *http.Request, status int, header ...string) bool {
	t.Helper()
	d, err := m.Read(r)
	if err != nil {
		t.Error(err)
		return false
	}
	if !d.Allowed {
		m.Free(d)
		return false
	}
	err = m.Serve(d, httptest.NewRecorder(), r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		return nil
	}))
	if err != nil {
		t.Error(err)
	}
	return true
}

// settled waits until nothing is left to settle.
func (m *Meter) settled() { m.settlers.first.await(time.Minute) }

// TestSettle: after so many answers, so much is left of 100.
func TestSettle(t *testing.T) {
	for name, app := range settleStores(t) {
		for _, algorithm := range []string{limiter.SlidingWindow, limiter.SlidingLog, limiter.SlidingCounter, limiter.TokenBucket, limiter.FixedWindow} {
			m := build(t, app).meter(t, `{"rate_limits": {"`+algorithm+name+`": {"key": "x", "max_events": 60, "window": "24h", "algorithm": "`+algorithm+`",
				"cost": "20", "settle": {"status": {"304": 1, "5xx": 0}, "header": "X-Cost"}}}}`)
			steps := []struct {
				status int
				header []string
				left   int64 // what a request that looks only would find
			}{
				{200, nil, 40},
				{503, nil, 40},
				{304, nil, 39},
				{200, []string{"X-Cost", "12"}, 27},
				{200, []string{"X-Cost", "25"}, 2}, // more than was reserved
			}
			for i, s := range steps {
				if !m.visit(t, from("203.0.113.1", "/"), s.status, s.header...) {
					t.Fatalf("%s %s: step %d was refused", name, algorithm, i)
				}
				m.settled()
				ask := []limiter.Ask{{Limit: &m.zones[0].limits[0], Key: "x"}}
				var look [1]limiter.Result
				if err := m.store.Take(t.Context(), ask, look[:]); err != nil || look[0].Remaining != s.left {
					t.Errorf("%s %s: step %d: %d left (%v), want %d", name, algorithm, i, look[0].Remaining, err, s.left)
				}
			}
			if m.visit(t, from("203.0.113.1", "/"), 200) {
				t.Errorf("%s %s: more than the limit passed", name, algorithm)
			}
		}
	}
}

// TestSettleAtOnce: what 60 requests at once are given back is exact, and no more than what
// they paid. Row L46: they pay at entry, so that no more than the limit are ever inside.
func TestSettleAtOnce(t *testing.T) {
	for name, app := range settleStores(t) {
		m := build(t, app).meter(t, `{"rate_limits": {"crowd`+name+`": {"key": "x", "max_events": 60, "window": "24h",
			"settle": {"status": {"304": 0}}}}}`)
		var passed sync.WaitGroup
		var mu sync.Mutex
		served := 0
		for i := range 120 {
			passed.Go(func() {
				status := http.StatusOK
				if i%2 == 0 {
					status = http.StatusNotModified
				}
				if m.visit(t, from("203.0.113.1", "/"), status) && status == http.StatusOK {
					mu.Lock()
					defer mu.Unlock()
					served++
				}
			})
		}
		passed.Wait()
		m.settled()
		for m.visit(t, from("203.0.113.1", "/"), http.StatusOK) {
			served++
		}
		if served != 60 {
			t.Errorf("%s: %d full answers, want 60", name, served)
		}
	}
}

// TestSettleNothing: a request whose price is its cost, that was refused, or of whom nobody
// knows what was charged, causes no call.
func TestSettleNothing(t *testing.T) {
	m := build(t, `{}`).meter(t, `{"rate_limits": {"nothing": {"key": "x", "max_events": 2, "window": "24h", "min_interval": "1us", "in_flight": 5,
		"settle": {"status": {"304": 0}}}}}`)
	calls := new(countingStore)
	m.settlers.first = newSettler(calls, true)
	for range 3 {
		m.visit(t, from("203.0.113.1", "/"), http.StatusOK)
	}
	if calls.changes != 0 {
		t.Errorf("%d changes, want none", calls.changes)
	}
	m = build(t, `{}`).meter(t, `{"rate_limits": {"nothing2": {"key": "x", "max_events": 2, "window": "24h", "min_interval": "1us", "in_flight": 5,
		"settle": {"status": {"304": 0}}}}}`)
	m.settlers.first = newSettler(calls, true)
	m.visit(t, from("203.0.113.1", "/"), http.StatusNotModified)
	if calls.changes != 1 {
		t.Errorf("%d changes, want one: neither min_interval nor in_flight has a price", calls.changes)
	}
	m.guessing, m.store = true, brokenStore{}
	m.visit(t, from("203.0.113.1", "/"), http.StatusNotModified)
	if calls.changes != 1 {
		t.Errorf("%d changes after nobody could decide, want one", calls.changes)
	}
}

// TestSettlePanic: handlers that panic have cost what was reserved, and nothing is lost.
func TestSettlePanic(t *testing.T) {
	m := build(t, `{}`).meter(t, `{"rate_limits": {"panic": {"key": "x", "max_events": 2, "window": "24h", "settle": {"status": {"5xx": 0}}}}}`)
	r := from("203.0.113.1", "/")
	d, err := m.Read(r)
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() != http.ErrAbortHandler {
				t.Error("the panic did not come through")
			}
		}()
		_ = m.Serve(d, httptest.NewRecorder(), r, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
			panic(http.ErrAbortHandler)
		}))
	}()
	if got := spend(t, m, from("203.0.113.1", "/")); got != 0 {
		t.Errorf("%d left, want 0", got)
	}
}

// A countingStore counts the changes that it is given.
type countingStore struct {
	limiter.Store
	changes int
}

func (c *countingStore) Adjust(_ context.Context, changes []limiter.Change) error {
	c.changes += len(changes)
	return nil
}

// A brokenStore decides nothing.
type brokenStore struct{ limiter.Store }

func (brokenStore) Take(context.Context, []limiter.Ask, []limiter.Result) error {
	return limiter.ErrUnavailable
}

func TestSettleMeaning(t *testing.T) {
	for settle, want := range map[string]string{
		`{}`:                                  "settle: settles nothing",
		`{"status": {"30": 1}}`:               "settle: status 30: must be a status such as 304, or a class such as 5xx",
		`{"status": {"6xx": 1}}`:              "settle: status 6xx: must be a status",
		`{"status": {"200": -1}}`:             "settle: status 200: must cost between 0 and 1000000000, got -1",
		`{"header": "X Cost"}`:                `settle: header: "X Cost" is not the name of a header`,
		`{"bytes": -1}`:                       "settle: bytes: must be at least 1, got -1",
		`{"status": {"2xx": 0}, "bytes": 10}`: "",
	} {
		err := rateLimit(t, `{"rate_limits": {"z": {"key": "x", "max_events": 1, "window": "1h", "settle": `+settle+`}}}`).Validate()
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", settle, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", settle, err, want)
		}
	}
}

// look returns how the first limit of the first zone stands for the key x.
func (m *Meter) look(t *testing.T) limiter.Result {
	t.Helper()
	var r [1]limiter.Result
	if err := m.store.Take(t.Context(), []limiter.Ask{{Limit: &m.zones[0].limits[0], Key: "x"}}, r[:]); err != nil {
		t.Fatal(err)
	}
	return r[0]
}

// What an instance's share was charged is settled by the numbers of the share: it is never used up for
// longer than a share can be.
func TestSettleShare(t *testing.T) {
	for _, algorithm := range []string{limiter.SlidingWindow, limiter.SlidingCounter, limiter.TokenBucket, limiter.FixedWindow} {
		m := build(t, `{"redis": {"addresses": ["127.0.0.1:1"]}, "instances": 3}`).meter(t, `{"rate_limits": {"shared `+algorithm+`": {
			"key": "x", "max_events": 90, "window": "24h", "algorithm": "`+algorithm+`", "cost": "6", "settle": {"status": {"4xx": 90, "5xx": 0}}}}}`)
		for i, step := range []struct{ status, left int }{{200, 24}, {503, 24}, {404, 0}} {
			if !m.visit(t, from("203.0.113.1", "/"), step.status) {
				t.Fatalf("%s: step %d was refused", algorithm, i)
			}
			m.settled()
			if r := m.look(t); r.Max != 30 || r.Remaining != int64(step.left) || r.Reset > 2*24*time.Hour {
				t.Errorf("%s: step %d: %d of %d left for %s, want %d of 30", algorithm, i, r.Remaining, r.Max, r.Reset, step.left)
			}
		}
	}
}

// What Redis was charged is nothing that its stand-in could give back.
func TestSettleInOutage(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	app := build(t, `{"redis": {"addresses": ["`+server.Addr()+`"], "timeout": "1s"}}`)
	r := from("203.0.113.1", "/")
	var meters []*Meter
	var inside []*Reading
	for _, algorithm := range []string{limiter.SlidingWindow, limiter.TokenBucket, limiter.FixedWindow} {
		m := app.meter(t, `{"rate_limits": {"outage `+algorithm+`": {"key": "x", "max_events": 60, "window": "24h", "algorithm": "`+algorithm+`",
			"cost": "20", "settle": {"status": {"5xx": 0}}}}}`)
		// The stand-in has counted in an earlier outage.
		var counted [1]limiter.Result
		if err := app.memory.Take(t.Context(), []limiter.Ask{{Limit: &m.zones[0].limits[0], Key: "x", Cost: 20}}, counted[:]); err != nil {
			t.Fatal(err)
		}
		d, err := m.Read(r)
		if err != nil || d.Results[0].Origin != limiter.Exactly {
			t.Fatalf("%+v, %v", d, err)
		}
		meters, inside = append(meters, m), append(inside, d)
	}
	server.Kill()
	for i, m := range meters {
		if !m.visit(t, r, http.StatusOK) || m.look(t).Remaining != 20 {
			t.Fatalf("the stand-in says %+v, want 20 left", m.look(t))
		}
		err := m.Serve(inside[i], httptest.NewRecorder(), r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusServiceUnavailable)
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		m.settled()
		if left := m.look(t).Remaining; left != 20 {
			t.Errorf("%s: the stand-in has %d left, want 20", m.zones[0].seen.Name, left)
		}
	}
}

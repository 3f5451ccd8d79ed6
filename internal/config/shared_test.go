package config

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/weirhq/caddy-weir/internal/observe"
	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
)

// build builds an app from its JSON. The test closes it, or its end does.
func build(t *testing.T, text string) *Shared {
	t.Helper()
	ctx, err := caddy.ProvisionContext(new(caddy.Config))
	if err != nil {
		t.Fatal(err)
	}
	var app App
	if err := json.Unmarshal([]byte(text), &app); err != nil {
		t.Fatal(err)
	}
	s, err := app.Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// meter builds a handler from its JSON.
func (s *Shared) meter(t *testing.T, text string) *Meter {
	t.Helper()
	ctx, err := caddy.ProvisionContext(new(caddy.Config))
	if err != nil {
		t.Fatal(err)
	}
	m, err := rateLimit(t, text).Build(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// read asks the meter about one request.
func (m *Meter) read(t *testing.T) (allowed bool, wait time.Duration, origins []limiter.Origin) {
	t.Helper()
	r := httptest.NewRequest("GET", "/", nil)
	d, err := m.Read(r)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free(d)
	for _, result := range d.Results {
		origins = append(origins, result.Origin)
	}
	return d.Allowed, d.Wait, origins
}

func references() int {
	n, _ := stores.References(memoryKey{})
	return n
}

// Every configuration holds each store once, however often it is closed, and one that
// fails holds nothing.
func TestReferences(t *testing.T) {
	before := references()
	old, young := build(t, `{}`), build(t, `{"redis": {"addresses": ["127.0.0.1:1"]}}`)
	if old.memory != young.memory {
		t.Error("counts do not survive a reload")
	}
	if n := references() - before; n != 2 {
		t.Errorf("%d references, want 2", n)
	}
	ctx, err := caddy.ProvisionContext(new(caddy.Config))
	if err != nil {
		t.Fatal(err)
	}
	broken := App{Redis: &Redis{Addresses: []string{"127.0.0.1:1"}, Prefix: "a{b}"}}
	if _, err := broken.Build(ctx); err == nil {
		t.Error("a prefix with braces was accepted")
	}
	for range 2 {
		old.Close()
	}
	if n := references() - before; n != 1 {
		t.Errorf("%d references, want 1", n)
	}
	young.Close()
	if n := references() - before; n != 0 {
		t.Errorf("%d references, want none", n)
	}
}

// L101: a connection belongs to one server, database, user and name space.
func TestRedisIdentity(t *testing.T) {
	const first = `{"redis": {"addresses": ["127.0.0.1:1"], "username": "u", "password": "p"}}`
	a := build(t, first)
	if b := build(t, first); a.redis != b.redis {
		t.Error("equal configurations have two stores")
	}
	for _, other := range []string{
		`{"redis": {"addresses": ["127.0.0.1:2"], "username": "u", "password": "p"}}`,
		`{"redis": {"addresses": ["127.0.0.1:1"], "username": "v", "password": "p"}}`,
		`{"redis": {"addresses": ["127.0.0.1:1"], "username": "u", "password": "q"}}`,
		`{"redis": {"addresses": ["127.0.0.1:1"], "username": "u", "password": "p", "db": 1}}`,
		`{"redis": {"addresses": ["127.0.0.1:1"], "username": "u", "password": "p", "prefix": "x:"}}`,
		`{"redis": {"addresses": ["127.0.0.1:1", "127.0.0.1:2"], "username": "u", "password": "p"}}`,
		`{"redis": {"addresses": ["127.0.0.1:1"], "username": "u", "password": "p", "cluster": true}}`,
		`{"redis": {"addresses": ["127.0.0.1:1"], "username": "u", "password": "p", "sentinel": "main"}}`,
		`{"redis": {"addresses": ["127.0.0.1:1"], "username": "u", "password": "p", "tls": {}}}`,
		`{"redis": {"addresses": ["127.0.0.1:1"], "username": "u", "password": "p", "tls": {"server_name": "x"}}}`,
		`{"redis": {"addresses": ["127.0.0.1:1"], "username": "u", "password": "p"}, "secret": "s"}`,
		`{"redis": {"addresses": ["127.0.0.1:1"], "username": "u", "password": "p"}, "hash_keys": "off"}`,
	} {
		if b := build(t, other); a.redis == b.redis {
			t.Errorf("shares a store with another: %s", other)
		}
	}
}

func TestSecretsAreReplaced(t *testing.T) {
	t.Setenv("WEIR_TEST_PASSWORD", "open sesame")
	s := build(t, `{"redis": {"addresses": ["127.0.0.1:1"], "password": "{env.WEIR_TEST_PASSWORD}"}}`)
	if got := s.app.Redis.Password; got != "open sesame" {
		t.Errorf("password %q", got)
	}
}

const (
	once    = `"rate_limits": {"api": {"key": "x", "max_events": 1, "window": "1h"}}`
	nowhere = `{"redis": {"addresses": ["127.0.0.1:1"]}}`
)

// A store that is down is not an error: what decides instead is the user's choice, of
// the handler before the app's.
func TestOnStoreError(t *testing.T) {
	for _, test := range []struct {
		name, app, handler string
		allowed            []bool // of three requests
		wait               time.Duration
	}{
		{"default", nowhere, `{` + once + `}`, []bool{true, false, false}, time.Hour},
		{"allow", nowhere, `{"on_store_error": "allow", ` + once + `}`, []bool{true, true, true}, 0},
		{"deny", nowhere, `{"on_store_error": "deny", ` + once + `}`, []bool{false, false, false}, time.Second},
		{
			"of the app", `{"redis": {"addresses": ["127.0.0.1:1"]}, "on_store_error": "allow"}`, `{` + once + `}`,
			[]bool{true, true, true},
			0,
		},
		{
			"over the app", `{"redis": {"addresses": ["127.0.0.1:1"]}, "on_store_error": "allow"}`,
			`{"on_store_error": "deny", ` + once + `}`,
			[]bool{false, false, false},
			time.Second,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := build(t, test.app).meter(t, test.handler)
			for i, want := range test.allowed {
				allowed, wait, origins := m.read(t)
				if allowed != want || !slices.Equal(origins, []limiter.Origin{limiter.Local}) {
					t.Errorf("request %d: allowed %t by %v, want %t by local", i, allowed, origins, want)
				}
				if !allowed && (wait > test.wait || wait < test.wait-time.Minute) {
					t.Errorf("request %d: wait %s, want about %s", i, wait, test.wait)
				}
			}
		})
	}
}

// L103: an outage ends by itself, and the log tells of both its ends once.
func TestOutage(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	s := build(t, `{"redis": {"addresses": ["`+server.Addr()+`"], "timeout": "1s"}}`)
	core, logs := observer.New(zap.InfoLevel)
	s.log = observe.NewLog(zap.New(core))
	m := s.meter(t, `{"rate_limits": {"api": {"key": "x", "max_events": 1000, "window": "1h"}}}`)
	// expect asks until the answer comes from there: a connection may die late, and Redis
	// is found again after a while.
	expect := func(want limiter.Origin) {
		t.Helper()
		await(t, "an answer that is "+want.String(), func() bool {
			_, _, origins := m.read(t)
			return slices.Equal(origins, []limiter.Origin{want})
		})
	}
	expect(limiter.Exactly)
	server.Kill()
	expect(limiter.Local)
	server.Restart()
	expect(limiter.Exactly)
	if n := logs.FilterMessage("store unavailable").Len(); n != 1 {
		t.Errorf("down was logged %d times", n)
	}
	await(t, "a line that it is back", func() bool {
		m.read(t)
		return logs.FilterMessage("store available again").Len() > 0
	})
	if n := logs.FilterMessage("store available again").Len(); n != 1 {
		t.Errorf("up was logged %d times", n)
	}
}

// Requests that an old configuration still serves after its end do no harm and say
// nothing.
func TestServeAfterClose(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	s := build(t, `{"redis": {"addresses": ["`+server.Addr()+`"], "timeout": "1s"}}`)
	core, logs := observer.New(zap.InfoLevel)
	s.log = observe.NewLog(zap.New(core))
	m := s.meter(t, `{`+once+`}`)
	if _, _, origins := m.read(t); !slices.Equal(origins, []limiter.Origin{limiter.Exactly}) {
		t.Fatalf("answers are %v", origins)
	}
	s.Close()
	for i, want := range []bool{true, false} {
		allowed, _, origins := m.read(t)
		if allowed != want || !slices.Equal(origins, []limiter.Origin{limiter.Local}) {
			t.Errorf("request %d: allowed %t by %v, want %t by local", i, allowed, origins, want)
		}
	}
	if logs.Len() != 0 {
		t.Errorf("logged %v", logs.All())
	}
}

// A configuration whose load fails may have run for a moment. The one that serves on has its
// own bound of keys again.
func TestFailedLoadLeavesBound(t *testing.T) {
	s, failed := build(t, `{}`), build(t, `{"max_keys": 1}`)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		go s.sweep(ctx)
		synctest.Wait()
		over, stop := context.WithCancel(t.Context())
		stop()
		failed.sweep(over)
		<-time.After(sweepInterval)
		synctest.Wait()
		cancel()
		synctest.Wait()
	})
	const keys = 2000
	l := &limiter.Limit{Zone: "bound", Algorithm: limiter.FixedWindow, Events: 1, Window: time.Hour}
	var result [1]limiter.Result
	before := s.memory.Len()
	for i := range keys {
		ask := limiter.Ask{Limit: l, Key: strconv.Itoa(i), Cost: 1}
		if err := s.memory.Take(t.Context(), []limiter.Ask{ask}, result[:]); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.memory.Len() - before; n != keys {
		t.Errorf("%d keys have room of their own, want %d", n, keys)
	}
}

// L88: a limit over a shorter window that joins a zone takes no count from the others, nor
// does one that leaves.
func TestLimitJoinsZone(t *testing.T) {
	const hour, minute = `{"events": 3, "window": "1h"}`, `{"events": 100, "window": "1m"}`
	for i, c := range []struct {
		limits  string
		allowed bool
	}{
		{hour, true},
		{hour + "," + minute, true},
		{hour, true},
		{minute + "," + hour, false},
	} {
		m := build(t, `{}`).meter(t, `{"rate_limits": {"joined": {"key": "x", "limits": [`+c.limits+`]}}}`)
		if allowed, _, _ := m.read(t); allowed != c.allowed {
			t.Errorf("request %d, under %s: allowed %t, want %t", i, c.limits, allowed, c.allowed)
		}
	}
}

// lost is a store that fails in a way that no layer knows.
type lost struct{ limiter.Store }

func (lost) Take(context.Context, []limiter.Ask, []limiter.Result) error { return errors.New("lost") }

// Not even an error that nobody foresaw is one of the request.
func TestUndecided(t *testing.T) {
	for _, test := range []struct {
		handler string
		allowed bool
	}{
		{`{` + once + `}`, true},
		{`{"on_store_error": "deny", ` + once + `}`, false},
		{`{"on_store_error": "deny", "dry_run": true, ` + once + `}`, true},
	} {
		m := build(t, `{}`).meter(t, test.handler)
		m.store = lost{}
		for range 2 {
			allowed, wait, _ := m.read(t)
			if allowed != test.allowed || !allowed && wait != storeWait {
				t.Errorf("%s: allowed %t, wait %s", test.handler, allowed, wait)
			}
		}
	}
}

package config

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/limiter"
)

// login is a zone that bans for three failures in a minute.
func login(fields string) string {
	return `{"rate_limits": {"login": {"key": "{http.vars.client_ip}", "ban": {"events": 3, "window": "1m", "count": ["401", "403"], "spread": 0` + fields + `}}}}`
}

// Three failures ban a client, here at once and then on all nodes, and nobody else; and what is
// known of it is kept.
func TestBan(t *testing.T) {
	clock, list := newTestClock(), new(memoryList)
	one := banning(t, list, clock.read, login(``))
	two := banning(t, list, clock.read, login(``))
	one.sends("203.0.113.1", 401, 401, 401)
	one.sends("203.0.113.1", 200, 200)
	one.sends("203.0.113.1", 403, 403)
	one.sends("203.0.113.1", 200, 429, 429)
	one.sends("203.0.113.2", 200, 200)
	two.sends("203.0.113.1", 200, 200) // which has not heard of it yet
	one.round()
	two.round()
	two.sends("203.0.113.1", 200, 429)
	if one.shared.bans.held.any() {
		t.Error("what is on the list is still held")
	}
	if len(one.begun) != 1 || len(two.begun) != 0 {
		t.Fatalf("%d and %d bans were told of, want one", len(one.begun), len(two.begun))
	}
	b := one.begun[0]
	if b.Dry || b.Client != "203.0.113.1" || b.Key != "203.0.113.1" || b.LogKey {
		t.Errorf("told %+v", b)
	}
	for _, b := range slices.Collect(list.content.Bans.All()) {
		want := blocklist.Ban{
			Zone: "login", Scope: blocklist.Scope{Kind: blocklist.ScopeZone, Name: "login"}, Key: "name of 203.0.113.1",
			Bits: 32, Since: banStart, Until: banStart.Add(10 * time.Minute), Forget: banStart.Add(10 * time.Minute),
			Count: 1, Origin: "login",
			Evidence: blocklist.Evidence{
				Reason: "3 answers of 401, 403 in 1m", Host: "example.com", Path: "/login", Status: 403, Hits: 3, At: banStart,
			},
		}
		if *b != want {
			t.Errorf("on the list:\n%+v, want\n%+v", *b, want)
		}
	}
	// B08, B16: it ends by itself, at its time, on every node, and with a clean slate.
	clock.move(10*time.Minute - time.Millisecond)
	one.sends("203.0.113.1", 200, 429)
	two.sends("203.0.113.1", 200, 429)
	clock.move(time.Millisecond)
	one.sends("203.0.113.1", 401, 401, 401)
	two.sends("203.0.113.1", 200, 200)
}

// A refused client is told how long, by the one answer that says why.
func TestBanRefusal(t *testing.T) {
	clock := newTestClock()
	n := banning(t, new(memoryList), clock.read, login(`, "status": 403`))
	n.sends("203.0.113.1", 401, 401, 401, 401)
	clock.move(time.Minute)
	counting := &countedStore{Store: n.store}
	n.store = counting
	d, err := n.Read(from("203.0.113.1", "/login"))
	if err != nil {
		t.Fatal(err)
	}
	if d.Allowed || d.Wait != 9*time.Minute || d.Status != 403 || d.Reason == "" || d.Nearest >= 0 || d.Blamed >= 0 {
		t.Errorf("reading %+v", d)
	}
	r := from("203.0.113.1", "/login")
	n.Explain(r, d)
	n.Free(d)
	if got := placeholders(r, "{http.rate_limit.exceeded.name}|{http.rate_limit.exceeded.limit}|{http.rate_limit.exceeded.window}|{http.rate_limit.exceeded.wait}"); got != "login|3|1m0s|540" {
		t.Errorf("placeholders %s", got)
	}
	if counting.calls != 0 {
		t.Errorf("a banned client cost %d store calls", counting.calls)
	}
}

// placeholders replaces those of a request.
func placeholders(r *http.Request, text string) string {
	return r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).ReplaceAll(text, "-")
}

// countedStore counts what is asked of a store.
type countedStore struct {
	limiter.Store
	calls int
}

func (s *countedStore) Take(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	s.calls++
	return s.Store.Take(ctx, asks, results)
}

// What counts, and what does not.
func TestBanCounts(t *testing.T) {
	const limited = `, "max_events": 2, "window": "1h"`
	zone := func(zone, ban string) string {
		return `{"rate_limits": {"login": {"key": "{http.vars.client_ip}"` + zone + `, "ban": {"events": 3, "window": "1m"` + ban + `}}}}`
	}
	for _, test := range []struct {
		name, config string
		client       string
		status       int
		want         string // of six requests
	}{
		{"failures", login(``), "203.0.113.1", 401, "401 401 401 429 429 429"},
		{"what is no failure", login(``), "203.0.113.1", 404, "404 404 404 404 404 404"},
		{"a class", zone(``, `, "count": ["4xx"]`), "203.0.113.1", 418, "418 418 418 429 429 429"},
		{"requests", zone(``, `, "count": ["requests"]`), "203.0.113.1", 200, "200 200 200 429 429 429"},
		// The default bans nobody who keeps within the limits.
		{"refusals", zone(limited, ``), "203.0.113.1", 200, "200 200 429 429 429 429"},
		{"requests with a limit", zone(limited, `, "count": ["requests"], "status": 403`), "203.0.113.1", 200, "200 200 429 403 403 403"},
		{"refusals or failures", zone(limited, `, "count": ["refusals", "401"], "status": 403`), "203.0.113.1", 401, "401 401 429 403 403 403"},
		// L133, B01, B02: nobody who is protected, and by default nobody on a private network (B04).
		{"protected", login(``), "203.0.113.250", 401, "401 401 401 401 401 401"},
		{"private", login(``), "192.168.0.254", 401, "401 401 401 401 401 401"},
		{"private, as is wanted", login(`, "private_ranges": true`), "192.168.0.254", 401, "401 401 401 429 429 429"},
		{"exempt", zone(`, "exempt_ranges": ["203.0.113.0/24"]`, `, "count": ["4xx"]`), "203.0.113.1", 401, "401 401 401 401 401 401"},
		{"a dry run", login(`, "dry_run": true`), "203.0.113.1", 401, "401 401 401 401 401 401"},
		{"a zone in dry run", zone(`, "dry_run": true`+limited, ``), "203.0.113.1", 200, "200 200 200 200 200 200"},
		// B05: a client that hops inside of its /64 is one.
		{"hops", login(``), "hops", 401, "401 401 401 429 429 429"},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := banning(t, new(memoryList), newTestClock().read, test.config)
			var got []string
			for i := range 6 {
				client := test.client
				if client == "hops" {
					client = fmt.Sprintf("[2001:db8:1:2::%x]", i+1)
				}
				got = append(got, fmt.Sprint(n.send(from(client, "/login"), test.status)))
			}
			if got := strings.Join(got, " "); got != test.want {
				t.Errorf("answers %s, want %s", got, test.want)
			}
		})
	}
}

// Our own refusals never feed a count of failures, whichever handler they come from; nor does
// an answer that nobody knows.
func TestBanIgnoresOwnRefusals(t *testing.T) {
	n := banning(t, new(memoryList), newTestClock().read, strings.Replace(login(``), `"401"`, `"4xx", "5xx"`, 1))
	for range 9 {
		r := from("203.0.113.1", "/login")
		d, err := n.Read(r)
		if err != nil || !d.Allowed {
			t.Fatal(err, d.Allowed)
		}
		w := httptest.NewRecorder()
		_ = n.Serve(d, w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			MarkRefused(r)
			w.WriteHeader(http.StatusForbidden)
			return nil
		}))
	}
	for range 9 {
		r := from("203.0.113.1", "/login")
		d, err := n.Read(r)
		if err != nil || !d.Allowed {
			t.Fatal(err, d.Allowed)
		}
		func() {
			defer func() { _ = recover() }()
			_ = n.Serve(d, httptest.NewRecorder(), r, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
				panic(http.ErrAbortHandler)
			}))
		}()
	}
	n.sends("203.0.113.1", 401, 401, 401, 401, 429)
}

// L130: what is tried during a ban makes it no longer, however much it is; and the next one is
// longer only while the last is remembered.
func TestBanGrowsByOffences(t *testing.T) {
	clock, list := newTestClock(), new(memoryList)
	n := banning(t, list, clock.read, login(`, "grow": 2, "max": "1h", "quiet": "1d"`))
	for _, step := range []struct {
		after  time.Duration
		length time.Duration
	}{
		{0, 10 * time.Minute},
		{10 * time.Minute, 20 * time.Minute},
		{20 * time.Minute, 40 * time.Minute},
		{40 * time.Minute, time.Hour},
		{time.Hour, time.Hour},
		{time.Hour + 72*time.Hour, 20 * time.Minute}, // three of four were forgotten
		{20*time.Minute + 200*time.Hour, 10 * time.Minute},
	} {
		clock.move(step.after)
		n.sends("203.0.113.1", 401, 401, 401, 401)
		n.round()
		for range 50 {
			n.sends("203.0.113.1", 401, 429)
		}
		n.round()
		last := n.begun[len(n.begun)-1].Ban
		if got := last.Until.Sub(last.Since); got != step.length {
			t.Errorf("after %s: banned for %s, want %s", step.after, got, step.length)
		}
		if b, ok := n.list.Ban(last.ID()); !ok || !b.Until.Equal(clock.read().Add(step.length)) {
			t.Errorf("after %s: on the list: %v", step.after, b)
		}
	}
}

// L124, B17: bans by several origins stand side by side, and the latest end counts.
func TestBanBesideAnOperators(t *testing.T) {
	clock, list := newTestClock(), new(memoryList)
	n := banning(t, list, clock.read, login(``))
	long := blocklist.Ban{
		Scope: blocklist.Scope{Kind: blocklist.ScopeZone, Name: "login"}, Key: "name of 203.0.113.1", Origin: "ada",
		Until: banStart.Add(time.Hour),
	}
	n.sends("203.0.113.1", 401, 401, 401, 401)
	n.round()
	apply := func(c blocklist.Change) {
		t.Helper()
		c.By = "ada"
		if _, _, err := n.list.Apply(t.Context(), c, netip.Addr{}, false); err != nil {
			t.Fatal(err)
		}
		n.round()
	}
	apply(blocklist.Change{Ban: []blocklist.Ban{long}})
	clock.move(30 * time.Minute)
	n.sends("203.0.113.1", 200, 429)
	apply(blocklist.Change{Lift: []blocklist.BanID{long.ID()}})
	n.sends("203.0.113.1", 200, 200)

	// A zone that bans nobody itself keeps to what operators say; and they are spared from nothing.
	plain := banning(t, list, clock.read, `{"rate_limits": {"login": {"key": "{http.vars.client_ip}", "max_events": 99, "window": "1h"}}}`)
	long.Until = clock.read().Add(time.Hour)
	apply(blocklist.Change{Ban: []blocklist.Ban{long}})
	plain.round()
	plain.sends("203.0.113.1", 200, 429)
	plain.sends("203.0.113.2", 200, 200)
	for mode, want := range map[blocklist.Mode]int{blocklist.Off: 200, blocklist.DryRun: 200, blocklist.Enforce: 429} {
		plain.list.mode = mode
		plain.sends("203.0.113.1", 200, want)
	}
}

// Lifting works at once, also for a ban that was just shared.
func TestBanLifted(t *testing.T) {
	clock, list := newTestClock(), new(memoryList)
	n := banning(t, list, clock.read, login(``))
	n.sends("203.0.113.1", 401, 401, 401, 401)
	n.shared.bans.round(t.Context()) // shared, and not seen yet
	n.sends("203.0.113.1", 200, 429)
	id := n.begun[0].Ban.ID()
	if _, _, err := n.list.Apply(t.Context(), blocklist.Change{By: "ada", Lift: []blocklist.BanID{id}}, netip.Addr{}, false); err != nil {
		t.Fatal(err)
	}
	n.round()
	n.sends("203.0.113.1", 401, 401, 401, 401, 429) // and it takes as many failures again
}

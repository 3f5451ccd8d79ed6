package config

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/blocklist"
)

const (
	feedlyAgent = "Feedly/1.0 (+http://www.feedly.com/fetcher.html; 8 subscribers; like FeedFetcher-Google)"
	feedlyKnown = `"aggregators": {"known": [{"name": "feedly", "agents": ["Feedly/*"], "ranges": ["192.0.2.0/24"]}]}`
)

func TestAggregatorsMeaning(t *testing.T) {
	const feedly = `{"name": "feedly", "agents": ["Feedly/*"], "ranges": ["192.0.2.0/24"]}`
	for fields, want := range map[string]string{
		`"known": [` + feedly + `]`:                               "",
		`"known": [` + feedly + `], "scale": "sqrt", "max": 1000`: "",
		`"known": []`: `aggregators: must name an aggregator`,
		`"known": [` + feedly + `], "scale": "cube"`:                                                     `aggregators: scale: must be log2 or sqrt, got "cube"`,
		`"known": [` + feedly + `], "max": 1001`:                                                         `aggregators: max: must be between 1 and 1000, got 1001`,
		`"known": [` + feedly + `], "max": -1`:                                                           `aggregators: max: must be between 1 and 1000, got -1`,
		`"known": [` + feedly + `], "resolvers": ["dns.example"]`:                                        `aggregators: resolvers: "dns.example": must be an IP address`,
		`"known": [` + feedly + `], "resolvers": ["192.0.2.1:0"]`:                                        `aggregators: resolvers: "192.0.2.1:0": must be an IP address`,
		`"known": [` + feedly + `], "resolvers": ["192.0.2.1", "[2001:db8::1]:53", "2001:db8::1"]`:       "",
		`"known": [` + feedly + `,` + feedly + `]`:                                                       `aggregator "feedly": there are two of this name`,
		`"known": [{"agents": ["x"], "dns": ["x.example"]}]`:                                             `aggregator "": must have a name`,
		`"known": [{"name": "x", "dns": ["x.example"]}]`:                                                 `aggregator "x": agent: is missing`,
		`"known": [{"name": "x", "agents": ["**"], "dns": ["x.example"]}]`:                               `aggregator "x": agent: "**": fits everybody`,
		`"known": [{"name": "x", "agents": [""], "dns": ["x.example"]}]`:                                 `aggregator "x": agent: "": must not be empty`,
		`"known": [{"name": "x", "agents": ["` + strings.Repeat("a*", 20) + `"], "dns": ["x.example"]}]`: `must have at most 16 stars, got 20`,
		`"known": [{"name": "x", "agents": ["x"]}]`:                                                      `aggregator "x": cannot be verified: write its ranges`,
		`"known": [{"name": "x", "agents": ["x"], "ranges": ["192.0.2.0/33"]}]`:                          `aggregator "x": ranges: "192.0.2.0/33": must have a length`,
		`"known": [{"name": "x", "agents": ["x"], "ranges": ["0.0.0.0/0"]}]`:                             `aggregator "x": ranges: "0.0.0.0/0": is everybody`,
		`"known": [{"name": "x", "agents": ["x"], "dns": ["com"]}]`:                                      `aggregator "x": dns: "com": must be a domain of two labels or more`,
		`"known": [{"name": "x", "agents": ["x"], "files": [""]}]`:                                       `aggregator "x": file: must have a path`,
	} {
		text := `{"rate_limits": {"z": {"feed": {"aggregators": {` + fields + `}}}}}`
		err := rateLimit(t, text).Validate()
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", fields, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), `zone "z": feed: `) || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", fields, err, want)
		}
	}
}

// TestRentedDomainsAreWarnedOf: a name that anybody can rent proves nothing.
func TestRentedDomainsAreWarnedOf(t *testing.T) {
	r := newReport()
	a := Aggregators{Known: []Aggregator{{Name: "x", Agents: []string{"x"}, DNS: []string{"x.example", "amazonaws.com"}}}}
	a.resolved().check(r)
	if len(r.problems) > 0 || len(r.warnings) != 1 || !strings.Contains(r.warnings[0].message, "amazonaws.com") {
		t.Errorf("%v, %v", r.problems, r.warnings)
	}
}

// polls counts how many of n polls, each with a feed-id of its own, pass at once.
func (m *Meter) polls(t *testing.T, n int, client, agent string) (passed int) {
	t.Helper()
	for i := range n {
		r := from(client, "/feed.xml", "If-None-Match", `"v1"`, "User-Agent", fmt.Sprintf("%s feed-id=%d", agent, i))
		if m.readFeed(t, httptest.NewRecorder(), r) == http.StatusNotModified {
			passed++
		}
	}
	return passed
}

// TestAggregatorBudget: a verified one has one budget for all addresses, by its subscribers; its name,
// however it is come by, is nobody else's key.
func TestAggregatorBudget(t *testing.T) {
	feedClock(t)
	m := build(t, `{}`).meter(t, `{"rate_limits": {"aggbudget": {"key": ["{http.request.header.X-Key}"], "feed": {"strict": true, `+feedlyKnown+`}}}}`)
	if n := m.polls(t, 20, "203.0.113.1", feedlyAgent); n != 2 {
		t.Errorf("%d polls of a forger, want 2", n)
	}
	// Eight subscribers are allowed as four readers.
	if n := m.polls(t, 6, "192.0.2.1", feedlyAgent) + m.polls(t, 20, "192.0.2.202", feedlyAgent); n != 8 {
		t.Errorf("%d polls from two addresses, want 8", n)
	}
	if n := m.polls(t, 20, "192.0.2.1", "Reader/1.0"); n != 2 {
		t.Errorf("%d polls of somebody else in the ranges, want 2", n)
	}
	for _, key := range []string{"feedly", aggregatorMark + "feedly", "@" + aggregatorMark + "feedly"} {
		r := from("203.0.113.9", "/feed.xml", "If-None-Match", `"v1"`)
		r.Header["X-Key"] = []string{key}
		if got := m.readFeed(t, httptest.NewRecorder(), r); got != http.StatusNotModified {
			t.Errorf("who has the key %q finds the service's budget spent", key)
		}
	}
}

// TestAggregatorAndOtherLimits: the other limits of the zone count by its key, as for all.
func TestAggregatorAndOtherLimits(t *testing.T) {
	feedClock(t)
	m := build(t, `{}`).meter(t, `{"rate_limits": {"agglimits": {"feed": {"strict": true, `+feedlyKnown+`}, "max_events": 3, "window": "1h"}}}`)
	if n := m.polls(t, 5, "192.0.2.1", feedlyAgent); n != 3 {
		t.Errorf("%d polls from one address, want 3", n)
	}
	if n := m.polls(t, 5, "192.0.2.202", feedlyAgent); n != 3 {
		t.Errorf("%d polls from another address, want 3", n)
	}
}

// TestAggregatorIsNotBanned: the zone neither counts a verified one nor bans it, as it does a forger;
// but what an operator bans stays out.
func TestAggregatorIsNotBanned(t *testing.T) {
	feedClock(t)
	s := build(t, `{"hash_keys": "off"}`)
	m := s.meter(t, `{"rate_limits": {"aggban": {"key": "{http.vars.client_ip}", "feed": {"strict": true, `+feedlyKnown+`}, "ban": {"events": 3, "window": "1h", "for": "1h"}}}}`)
	running, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { s.Run(running) })
	defer work.Wait()
	defer stop()
	fate := func(client, agent string) fate {
		t.Helper()
		d, err := m.Read(from(client, "/feed.xml", "If-None-Match", `"v1"`, "User-Agent", agent))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Refused(d, from(client, "/feed.xml"), 429)
		return d.parts[0].fate
	}
	m.polls(t, 40, "203.0.113.1", feedlyAgent)
	m.polls(t, 40, "192.0.2.1", feedlyAgent)
	if fate("203.0.113.1", feedlyAgent) != banned || fate("192.0.2.1", feedlyAgent) != asked {
		t.Error("the forger is not banned, or the service is")
	}
	if fate("192.0.2.1", "Reader/1.0") != asked {
		t.Error("what the service did counts for its address")
	}
	// The same address was banned for what it did by another name.
	m.polls(t, 40, "192.0.2.202", "Reader/1.0")
	if a, b := fate("192.0.2.202", "Reader/1.0"), fate("192.0.2.202", feedlyAgent); a != banned || b != asked {
		t.Errorf("the zone's ban of the address: %d for a reader, %d for the service", a, b)
	}
	for _, client := range []string{"192.0.2.1", "192.0.2.202"} {
		ban := blocklist.Ban{
			Scope: blocklist.Scope{Kind: blocklist.ScopeZone, Name: "aggban"}, Key: client, Bits: 32,
			Origin: "ada", Since: Now(), Until: Now().Add(time.Minute),
		}
		if _, _, err := s.List().Apply(t.Context(), blocklist.Change{By: "ada", Ban: []blocklist.Ban{ban}}, netip.Addr{}, true); err != nil {
			t.Fatal(err)
		}
		if fate(client, feedlyAgent) != banned {
			t.Errorf("an operator's ban does not keep %s out", client)
		}
	}
}

// TestAggregatorFile: a file of ranges has to be there, and is followed.
func TestAggregatorFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ranges.json")
	zone := `{"rate_limits": {"aggfile": {"feed": {"strict": true, "aggregators": {"known": [{"name": "feedly", "agents": ["Feedly/*"], "files": ["` + path + `"]}]}}}}}`
	s := build(t, `{}`)
	ctx, err := caddy.ProvisionContext(new(caddy.Config))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rateLimit(t, zone).Build(ctx, s); err == nil || !strings.Contains(err.Error(), `zone "aggfile": feed: aggregators: aggregator "feedly": file: source "`+path+`": `) {
		t.Errorf("without the file: %v", err)
	}
	write := func(prefix string) {
		t.Helper()
		next := path + ".next"
		if err := os.WriteFile(next, []byte(`{"prefixes": [{"ipv4Prefix": "`+prefix+`"}]}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, path); err != nil {
			t.Fatal(err)
		}
	}
	write("192.0.2.0/24")
	m := s.meter(t, zone)
	running, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { s.Run(running) })
	defer work.Wait()
	defer stop()
	verified := func(client string) bool {
		return m.zones[0].feed.aggregators.identify(from(client, "/feed.xml", "User-Agent", feedlyAgent), netip.MustParseAddr(client)) != nil
	}
	if !verified("192.0.2.1") || verified("198.51.100.1") {
		t.Error("the file is not what counts")
	}
	write("198.51.100.0/24")
	for end := time.After(time.Minute); !verified("198.51.100.1"); {
		select {
		case <-end:
			t.Fatal("the file is not followed")
		case <-time.After(20 * time.Millisecond):
		}
	}
	if verified("192.0.2.1") {
		t.Error("what was in the file counts still")
	}
}

// TestAggregatorAllocations: whoever is no aggregator costs not an allocation more for there being
// some; a verified one one, for its key beside the zone's.
func TestAggregatorAllocations(t *testing.T) {
	feedClock(t)
	count := func(zone, agent string) float64 {
		f, d := feedMeterOf(t, zone).zones[0].feed, new(Reading)
		r, client := from("192.0.2.1", "/feed.xml", "User-Agent", agent), netip.MustParseAddr("192.0.2.1")
		return testing.AllocsPerRun(200, func() {
			d.key = append(d.key[:0], "192.0.2.1"...)
			p := part{}
			f.name(d, &p, r, client)
			if p.key != "192.0.2.1" || (p.aggregator != nil) != (agent == feedlyAgent) {
				t.Fatalf("%s: key %q, aggregator %v", agent, p.key, p.aggregator)
			}
		})
	}
	with := `"feed": {` + feedlyKnown + `}`
	plain := count(`"aggnone": {"feed": {}}`, "Mozilla/5.0")
	if got := count(`"aggsome": {`+with+`}`, "Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0"); got > plain {
		t.Errorf("%v allocations, without aggregators %v", got, plain)
	}
	if got := count(`"agglog": {`+with+`}`, feedlyAgent); got > plain+1 {
		t.Errorf("%v allocations for a verified one, %v for others", got, plain)
	}
}

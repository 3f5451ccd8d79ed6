package aggregator

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
)

// TestFind: the agent has to fit, in its case, and the address; of several that fit the one that is
// verified counts.
func TestFind(t *testing.T) {
	set := Set{All: []Aggregator{
		{Name: "google", Agents: patterns(t, "*FeedFetcher-Google*"), Ranges: []Ranges{ranges(t, "192.0.2.0/24")}},
		{Name: "feedly", Agents: patterns(t, "Feedly/*", "FeedlyBot/*"), Ranges: []Ranges{ranges(t, "198.51.100.0/24"), ranges(t, "2001:db8::/32")}},
		{Name: "slow", Agents: patterns(t, "Slow*"), Domains: domains(t, "slow.example")},
	}, Verifier: NewVerifier(Options{Resolver: new(zoneFile)})}
	const feedly = "Feedly/1.0 (+http://www.feedly.com/fetcher.html; 50 subscribers; like FeedFetcher-Google)"
	for _, c := range []struct{ agent, client, want string }{
		{feedly, "198.51.100.7", "feedly verified"},
		{feedly, "2001:db8:7::1", "feedly verified"},
		{feedly, "192.0.2.7", "google verified"},
		{feedly, "203.0.113.7", "google forged"},
		{"FeedlyBot/1.0", "198.51.100.7", "feedly verified"},
		{"FeedlyBot/1.0", "192.0.2.7", "feedly forged"},
		{"FeedlyBot/1.0", "", "feedly forged"},
		{"feedly/1.0", "198.51.100.7", ""},
		{"x Feedly/1.0", "198.51.100.7", ""},
		{"", "198.51.100.7", ""},
		{"Slow/1", "203.0.113.7", "slow unknown"},
		{"Slow/1", "", "slow forged"},
		{feedly + string(make([]byte, maxAgent)), "198.51.100.7", ""},
	} {
		var client netip.Addr
		if c.client != "" {
			client = addr(c.client)
		}
		got := ""
		if a, v := set.Find(c.agent, client, time.Now); a != nil {
			got = a.Name + " " + v.String()
		}
		if got != c.want {
			t.Errorf("%s from %s: %q, want %q", c.agent, c.client, got, c.want)
		}
	}
}

// TestFindAllocates: nothing, whoever asks.
func TestFindAllocates(t *testing.T) {
	set := bigSet(t)
	for _, agent := range []string{
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:128.0) Gecko/20100101 Firefox/128.0",
		"Feedly/1.0 (+http://www.feedly.com/fetcher.html; 50 subscribers; like FeedFetcher-Google)",
	} {
		for _, client := range []string{"198.51.100.7", "203.0.113.7"} {
			a := addr(client)
			if n := testing.AllocsPerRun(100, func() { set.Find(agent, a, time.Now) }); n != 0 {
				t.Errorf("%s from %s: %v allocations", agent, client, n)
			}
			if n := testing.AllocsPerRun(100, func() { Subscribers(agent) }); n != 0 {
				t.Errorf("the subscribers of %s: %v allocations", agent, n)
			}
		}
	}
}

// bigSet has ten services, one of them with ranges.
func bigSet(tb testing.TB) *Set {
	set := &Set{All: []Aggregator{{Name: "feedly", Agents: patterns(tb, "Feedly/*", "*FeedFetcher*"), Ranges: []Ranges{ranges(tb, "198.51.100.0/24")}}}}
	for i := range 9 {
		set.All = append(set.All, Aggregator{Name: fmt.Sprint(i), Agents: patterns(tb, fmt.Sprintf("Service%d/*", i)), Domains: domains(tb, "service.example")})
	}
	set.Verifier = NewVerifier(Options{Resolver: new(zoneFile)})
	return set
}

// BenchmarkFind is what requests pay: those of browsers, and those of a service.
func BenchmarkFind(b *testing.B) {
	set := bigSet(b)
	for name, agent := range map[string]string{
		"browser": "Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:128.0) Gecko/20100101 Firefox/128.0",
		"feedly":  "Feedly/1.0 (+http://www.feedly.com/fetcher.html; 50 subscribers; like FeedFetcher-Google)",
	} {
		b.Run(name, func(b *testing.B) {
			client := addr("198.51.100.7")
			b.ReportAllocs()
			for b.Loop() {
				set.Find(agent, client, time.Now)
			}
		})
	}
}

// BenchmarkSubscribers reads one agent.
func BenchmarkSubscribers(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Subscribers("Feedly/1.0 (+http://www.feedly.com/fetcher.html; 50 subscribers; like FeedFetcher-Google)")
	}
}

func patterns(tb testing.TB, texts ...string) (all []blocklist.Pattern) {
	tb.Helper()
	for _, text := range texts {
		p, err := blocklist.ParsePattern(text)
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func ranges(tb testing.TB, texts ...string) *blocklist.Prefixes {
	tb.Helper()
	set, err := blocklist.ParsePrefixes(texts)
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

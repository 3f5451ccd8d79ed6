package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

const (
	feedly     = "Feedly/1.0 (+http://www.feedly.com/fetcher.html; 50 subscribers; like FeedFetcher-Google)"
	newsblur   = "NewsBlur Feed Fetcher - 200 subscribers - http://www.newsblur.com/"
	byRanges   = "feed {\n\taggregators {\n\t\taggregator feedly {\n\t\t\tagent Feedly/*\n\t\t\tranges 192.0.2.0/24\n\t\t}\n\t\taggregator newsblur {\n\t\t\tagent \"NewsBlur *\"\n\t\t\tranges 198.51.100.0/24\n\t\t}\n\t}\n}"
	hosted     = "192.0.2.77"
	plainFulls = 5 // whole fetches that anybody has at once and within a day
)

// fulls fetches the whole feed again and again from some addresses in turn, and counts the answers.
func (b *blog) fulls(n int, agent string, from ...string) map[int]int {
	counts := make(map[int]int)
	for i := range n {
		counts[b.ask(http.MethodGet, from[i%len(from)], "/feed.xml", "User-Agent", agent).Code]++
		b.pass(10 * time.Second)
	}
	return counts
}

// TestFeedAggregators plays traces of services that fetch for many, and of those who take their
// names.
func TestFeedAggregators(t *testing.T) {
	for _, trace := range []struct {
		name string
		play func(b *blog)
	}{
		{"T33 forged: as all others, also in turn", func(b *blog) {
			served := 0
			for i := range 500 {
				if b.ask(http.MethodGet, reader, "/feed.xml", "User-Agent", []string{feedly, newsblur}[i%2]).Code == 200 {
					served++
				}
				b.pass(10 * time.Second)
			}
			if served > plainFulls {
				b.Errorf("%d served", served)
			}
		}},
		{"T33 from an address of another service: as all others", func(b *blog) {
			if got := b.fulls(200, newsblur, hosted); got[200] > plainFulls {
				b.Errorf("%v", got)
			}
		}},
		{"A10 a budget of one for all addresses, A11 which grows with the subscribers", func(b *blog) {
			b.tag()
			// Fifty subscribers stand for six readers: three at once, and a version for each.
			one := b.fulls(100, feedly, hosted)
			if one[200] < 3*6 || one[200] > 4*6+plainFulls {
				b.Errorf("one address: %v", one)
			}
			if more := b.fulls(100, feedly, "192.0.2.1", "192.0.2.2", "192.0.2.3"); more[200] > 3 {
				b.Errorf("three more addresses, whose budget is spent: %v", more)
			}
			// Others have theirs.
			if got := b.fulls(20, "Reader/1.0", "192.0.2.4"); got[200] < 3 {
				b.Errorf("a reader in the ranges of a service: %v", got)
			}
			if got := b.fulls(100, newsblur, "198.51.100.1"); got[200] < 3*8 {
				b.Errorf("another service: %v", got)
			}
		}},
		{"A11 several feed-ids and numbers: the largest counts, and nothing is added up", func(b *blog) {
			b.tag()
			served := 0
			for i := range 200 {
				agent := strings.Replace(feedly, "50 subscribers", fmt.Sprintf("%d subscribers; feed-id=%d", 2+i%2*6, i%20), 1)
				if b.ask(http.MethodGet, fmt.Sprintf("192.0.2.%d", 1+i%4), "/feed.xml", "User-Agent", agent).Code == 200 {
					served++
				}
				b.pass(10 * time.Second)
			}
			if served < 3*4 || served > 4*4+plainFulls { // eight subscribers stand for four
				b.Errorf("%d served", served)
			}
		}},
		{"T40 a hosted reader fetches the icon by another agent", func(b *blog) {
			b.publish("/favicon.ico", "")
			if w := b.ask(http.MethodGet, hosted, "/favicon.ico", "User-Agent", "Mozilla/5.0 Favicon; +https://a.example/"); w.Code != 200 {
				b.Errorf("icon: %d", w.Code)
			}
			b.get(200, hosted, "User-Agent", feedly)
		}},
		{"T42 a hosted reader polls four times an hour from many addresses: 304, and the news at once", func(b *blog) {
			tag := b.tag()
			for i := range 2 * 24 * 4 {
				b.get(304, fmt.Sprintf("192.0.2.%d", 1+i%9), "User-Agent", feedly, "If-None-Match", tag)
				b.pass(15 * time.Minute)
			}
			b.publish("/feed.xml", "")
			b.get(200, "192.0.2.200", "User-Agent", feedly, "If-None-Match", tag)
		}},
		{"T43 a day of 152 agents: six make half of it and get little, a service and the polite all", func(b *blog) {
			tag := b.tag()
			greedy, polite, service := make(map[int]int), make(map[int]int), make(map[int]int)
			for minute := range 24 * 60 {
				if minute%7 == 0 { // some nine an hour each
					for i := range 6 {
						greedy[b.ask(http.MethodGet, fmt.Sprintf("203.0.113.%d", i), "/feed.xml", "User-Agent", fmt.Sprintf("Self/%d", i)).Code]++
					}
					service[b.ask(http.MethodGet, fmt.Sprintf("192.0.2.%d", 1+minute%2), "/feed.xml", "User-Agent", feedly, "If-None-Match", tag).Code]++
				}
				if who := minute * 7 % 1440; who < 145 {
					polite[b.ask(http.MethodGet, fmt.Sprintf("203.0.113.%d", 50+who), "/feed.xml", "If-None-Match", tag).Code]++
				}
				b.pass(time.Minute)
			}
			if greedy[200] > 6*(plainFulls+1) || service[304] != 206 || polite[304] != 145 {
				b.Errorf("greedy %v, the service %v, polite %v", greedy, service, polite)
			}
		}},
	} {
		t.Run(trace.name, func(t *testing.T) { trace.play(newBlog(t, byRanges)) })
	}
}

// TestFeedAggregatorByName: a service is known by names of its addresses that lead back to them, once
// they are looked up, which holds nobody up; who gives his address such a name is not.
func TestFeedAggregatorByName(t *testing.T) {
	dns := newNameServer(t, map[string]string{
		"203.0.113.10":  "f10.feedly.example",
		"2001:db8::10":  "f10.feedly.example",
		"198.51.100.66": "f66.feedly.example", // which leads elsewhere
	}, map[string][]string{
		"f10.feedly.example": {"203.0.113.10", "2001:db8::10"},
		"f66.feedly.example": {"203.0.113.10"},
	})
	b := newBlog(t, fmt.Sprintf("feed {\n\tstrict\n\taggregators {\n\t\tresolvers %s\n\t\taggregator feedly {\n\t\t\tagent Feedly/*\n\t\t\tdns .feedly.example\n\t\t}\n\t}\n}", dns.at))
	tag, ids := b.tag(), 0
	passes := func(client string) bool {
		ids++ // or it would be the same request again
		agent := fmt.Sprintf("Feedly/1.0 (x; 1,000,000 subscribers; feed-id=%d)", ids)
		return b.ask(http.MethodGet, client, "/feed.xml", "User-Agent", agent, "If-None-Match", tag).Code == 304
	}
	spend := func(client string, n int) (passed int) {
		for range n {
			if passes(client) {
				passed++
			}
		}
		return passed
	}
	// The clock stands still: once the two polls of the address are spent another one passes only
	// for the service.
	becomesKnown := func(client string) {
		t.Helper()
		spend(client, 3)
		if !poll(func() bool { return passes(client) }) {
			t.Fatalf("%s never became known", client)
		}
	}
	becomesKnown("203.0.113.10")
	b.pass(3 * time.Hour)
	if n := spend("203.0.113.10", 50); n != 20 {
		t.Errorf("%d polls of the service at once, want ten times two", n)
	}
	b.pass(3 * time.Hour)
	asked := dns.questions()
	if n := spend("198.51.100.66", 20); n > 2 {
		t.Errorf("%d polls of a forger passed", n)
	}
	if !poll(func() bool { return dns.questions() >= asked+2 }) {
		t.Fatal("the forger was never looked up")
	}
	becomesKnown("[2001:db8::10]") // looked up after him
	if n := spend("198.51.100.66", 20); n > 0 {
		t.Errorf("%d polls of a forger passed after he was looked up", n)
	}
	b.pass(3 * time.Hour)
	if n := spend("203.0.113.10", 15) + spend("[2001:db8::10]", 15); n != 20 {
		t.Errorf("%d polls from both addresses, want those of one", n)
	}
}

package feed

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestVerdict(t *testing.T) {
	for _, tt := range []struct {
		name  string
		c     Conduct
		want  string
		score int
	}{
		{"none", Conduct{}, "", 100},
		{"few", Conduct{Requests: 4, Unconditional: 4, Uncompressed: 4}, "", 65},
		{"T01 polite", Conduct{Requests: 200, Unconditional: 1, NotModified: 199, Interval: 59 * time.Minute}, "", 100},
		{"T13 everything twice a day", Conduct{Requests: 240, Unconditional: 20, Interval: time.Hour}, "", 98},
		{
			"T18 Googlebot",
			Conduct{Requests: 1440, Unconditional: 1440, Early: 1438, Uncompressed: 1440, Interval: time.Minute},
			"ignores Retry-After, never sends validators, asks too often, takes no compression", 15,
		},
		{"T10 a stale pair", Conduct{Requests: 100, Unconditional: 100, MadeUp: 100, Interval: time.Hour}, "makes up validators", 65},
		{"some made up", Conduct{Requests: 100, Unconditional: 30, MadeUp: 30, Interval: time.Hour}, "makes up validators", 90},
		{"two made up", Conduct{Requests: 10, Unconditional: 2, MadeUp: 2, Interval: time.Hour}, "", 93},
		{"seldom", Conduct{Requests: 100, Unconditional: 60, Interval: time.Hour}, "seldom sends validators", 85},
		{"T34", Conduct{Requests: 288, Unconditional: 1, Interval: 5 * time.Minute}, "asks too often", 86},
		{"a tenth early", Conduct{Requests: 288, Interval: 54 * time.Minute}, "", 100},
		{"T39", Conduct{Requests: 100, Extra: 100, Cookies: 11, Interval: time.Hour}, "adds to the query, sends cookies", 97},
		{"early thrice of many", Conduct{Requests: 100, Early: 3, Interval: time.Hour}, "", 99},
	} {
		tt.c.Often = time.Hour
		if got := strings.Join(tt.c.Verdict(), ", "); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		if got := tt.c.Score(); got != tt.score {
			t.Errorf("%s: score %d, want %d", tt.name, got, tt.score)
		}
	}
}

func TestFamily(t *testing.T) {
	for agent, want := range map[string]string{
		"":                                   noAgent,
		" - ":                                noAgent,
		"(hidden)":                           noAgent,
		"newsboat/2.21.0 (Linux x86_64)":     "newsboat",
		"FreshRSS/1.24.0 (Linux; https://f)": "FreshRSS",
		"NetNewsWire (RSS Reader; https://netnewswire.com/)": "NetNewsWire",
		"Tiny Tiny RSS/21.05 (https://tt-rss.org/)":          "Tiny Tiny RSS",
		"Amazon Music Podcast":                               "Amazon Music Podcast",
		"Podbean/FeedUpdate 2.1":                             "Podbean",
		"Wget/1.21.3":                                        "Wget",
		"Googlebot/2.1":                                      "Googlebot",
		"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)": "Googlebot",
		"Mozilla/5.0 (compatible; inoreader.com; 5 subscribers)":                   "inoreader.com",
		"Mozilla/4.0 (compatible; MSIE 6.0)":                                       "MSIE",
		"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/":                         browser,
		"Feedbin feed-id:1337 - 5 subscribers":                                     "Feedbin",
		"NewsBlur Feed Fetcher - 200 subscribers - http://www.newsblur.com/":       "NewsBlur Feed Fetcher",
		"NewsBlur Feed Fetcher - 17 subscribers - http://www.newsblur.com/":        "NewsBlur Feed Fetcher",
		"iTMS": "iTMS", "itms": "itms", // two of them (podcasts' agents are told apart by case)
	} {
		if got := Family(agent); got != want {
			t.Errorf("%q: %q, want %q", agent, got, want)
		}
	}
}

// TestTotal: T19 and T43, a few agents make most of it.
func TestTotal(t *testing.T) {
	all := []Conduct{
		{Key: "a", Agent: "Spotify/1.0", Requests: 1202, Bytes: 50, Unconditional: 2, Refused: 9, Early: 3, NotModified: 7, Since: at(2 * time.Hour)},
		{Key: "b", Agent: "newsboat/2.21", Requests: 10, Bytes: 1, NotModified: 10, Since: at(time.Hour)},
		{Key: "c", Agent: "Spotify/2.0", Requests: 100, Bytes: 4, Since: at(0)},
		{Key: "d", Agent: "newsboat/2.30", Requests: 20, Bytes: 53, Since: at(3 * time.Hour)},
	}
	total, families := Total(all)
	if want := (Sum{4, 1332, 2, 3, 9, 17, 108, at(0)}); total != want {
		t.Errorf("got %+v, want %+v", total, want)
	}
	if want := []FamilySum{
		{"Spotify", Sum{2, 1302, 2, 3, 9, 7, 54, at(0)}},
		{"newsboat", Sum{2, 30, 0, 0, 0, 10, 54, at(time.Hour)}},
	}; !slices.Equal(families, want) {
		t.Errorf("got %+v, want %+v", families, want)
	}
	for by, want := range map[string]string{"bytes": "dacb", "requests": "acdb", "early": "acdb", "last": "acdb", "score": "acdb"} {
		Sort(all, by)
		got := ""
		for i := range all {
			got += all[i].Key
		}
		if got != want {
			t.Errorf("by %s: %s, want %s", by, got, want)
		}
	}
	for _, by := range Orders {
		if orders[by] == nil {
			t.Errorf("%s is no order", by)
		}
	}
	if len(Orders) != len(orders) {
		t.Errorf("%d orders are told, there are %d", len(Orders), len(orders))
	}
}

// TestConductsNeverLoseTheHeavy: a flood of strangers pushes out whoever does not come back, and
// nobody who makes more than one in so many of the requests.
func TestConductsNeverLoseTheHeavy(t *testing.T) {
	d := named(newDesk(t))
	d.book.readers = newGenerations[record](1000)
	d.visit("seen once", "GET")
	const flood = 20_000
	for i := range flood {
		d.visit(fmt.Sprint("stranger ", i), "GET")
		if i%400 == 0 {
			d.visit("heavy", "GET")
		}
	}
	if got := d.conduct("heavy").Requests; got != flood/400 {
		t.Errorf("%d requests of the heavy reader are known, want %d", got, flood/400)
	}
	all := d.book.Conducts(&d.rules, nil)
	if len(all) > 1000 {
		t.Errorf("%d readers", len(all))
	}
	if slices.ContainsFunc(all, func(c Conduct) bool { return c.Key == "seen once" }) {
		t.Error("who came once is still there: does the flood push anybody out?")
	}
}

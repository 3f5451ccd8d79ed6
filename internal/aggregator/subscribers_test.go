package aggregator

import (
	"strings"
	"testing"
)

// TestSubscribers reads every shape that services were seen to use, and takes nothing else for
// one.
func TestSubscribers(t *testing.T) {
	const none = -1
	for agent, want := range map[string]int64{
		// What services send.
		"Feedly/1.0 (+http://www.feedly.com/fetcher.html; 50 subscribers; like FeedFetcher-Google)":           50,
		"Feedly/1.0 (poller; 7 subscribers;)":                                                                 7,
		"Feedbin feed-id:1234 - 56 subscribers":                                                               56,
		`NewsBlur Feed Fetcher - 200 subscribers - http://www.newsblur.com/site/1/x ("Mozilla/5.0 (Mac)")`:    200,
		"NewsBlur Page Fetcher - 1 subscriber - http://www.newsblur.com/site/1/x":                             1,
		"Mozilla/5.0 (compatible; inoreader.com; 31 subscribers)":                                             31,
		"Inoreader/1.0 (+http://www.inoreader.com/feed-fetcher; 8 subscribers; )":                             8,
		"Mozilla/5.0 (compatible; theoldreader.com; 12 subscribers; feed-id=4f2d6e0aa0)":                      12,
		"Mozilla/5.0 (compatible; BazQux/2.4; +https://bazqux.com/fetcher; 3 subscribers)":                    3,
		"Dreamwidth Studios (webmaster@dreamwidth.org; for x; 14 readers)":                                    14,
		"LiveJournal.com (webmaster@livejournal.com; for http://www.livejournal.com/users/x/; 22 readers)":    22,
		"Overcast/1.0 Podcast Sync (123 subscribers; feed-id=998877; +http://overcast.fm/)":                   123,
		"PlainFeeder v0.0.1 (+https://www.plainfeeder.com/about ; Subscriber Count: 9)":                       9,
		"Bloglines/3.1 (http://www.bloglines.com; 1 subscriber)":                                              1,
		"NewsGatorOnline/2.0 (http://www.newsgator.com; 4 subscribers)":                                       4,
		"Netvibes (http://www.netvibes.com/; 5 subscribers; feedId: 445566)":                                  5,
		"RojoBot; Rojo 1.0; http://www.rojo.com/; Aggregating on behalf of 6 subscriber(s) online at http:/":  6,
		"YahooFeedSeeker/2.0 (compatible; Mozilla 4.0; MSIE 5.5; http://my.yahoo.com/s/; users 17; views 93)": 17,
		"ThePort_Web/1.0;_subscribers_1":                                                                      1,
		"FeedLounge (http://feedlounge.com, 2 subscribers, next refresh in approx. 28800 seconds)":            2,
		"kinjabot (http://www.kinja.com; 11 Readers)":                                                         11,
		"YandexBlogs/0.99 (compatible; BOT; +http://blogs.yandex.ru/faq.xml) 41 readers":                      41,
		// The ways in which they are written.
		"X (1,204 subscribers)":          1204,
		"X (12,345,678 readers)":         12345678,
		"X (1.204 users)":                1204,
		"X (1'204 users)":                1204,
		"X (users 1,204)":                1204,
		"X (users 1,204, feed 7)":        1204,
		"X (url,5 subscribers)":          5,
		"X_5_readers":                    5,
		"X+(5+subscribers)":              5,
		"X (SUBSCRIBERS: 5)":             5,
		"X (subscriber_count:_5)":        5,
		"X (5 user(s))":                  5,
		"X (readers(s) 5)":               none,
		"X (subscribers=5)":              5,
		"5 subscribers":                  5,
		"subscribers 5":                  5,
		"X (0 subscribers)":              0,
		"X (3 subscribers; 4 readers)":   3,
		"X (readers; 4 users)":           4,
		"X (99999999999999999999 users)": mostSubscribers,
		// What is no number of subscribers.
		"":                                       none,
		"X/5":                                    none,
		"X (views 93)":                           none,
		"X (93 views; refresh in 600 seconds)":   none,
		"FeedReader 3.14 (Powered by Newsbrain)": none,
		"RSS Reader 5 (Windows)":                 none,
		"NetNewsWire (RSS Reader; https://nnw.app/)": none,
		"BazQux/2.400 subscribers":                   none,
		"X 2.4 users":                                none,
		"X v2.400 users":                             none,
		"X (-5 subscribers)":                         none,
		"X (feed-id:5 subscribers)":                  none,
		"X (12,34 subscribers)":                      none,
		"X (1,204.567 subscribers)":                  none,
		"X (1234,567 subscribers)":                   none,
		"X (abc5 subscribers)":                       none,
		"X (5 nonsubscribers)":                       none,
		"X (5 subscribersx)":                         none,
		"X (5subscribers)":                           none,
		"X (subscribers5)":                           none,
		"X (5 user-agents)":                          none,
		"X (5 reader/2.0)":                           none,
		"X (http://a.example/users/5)":               none,
		"X (readers 2.0)":                            none,
		"X (readers 5x)":                             none,
		"X (users, 5)":                               none,
		"X (subscribers; 5)":                         none,
		"X (many subscribers)":                       none,
		strings.Repeat("subscribers ", 40):           none,
	} {
		n, ok := Subscribers(agent)
		if want == none && ok || want != none && (!ok || n != want) {
			t.Errorf("%s: %d, %v; want %d", agent, n, ok, want)
		}
	}
}

// TestFirstStatementCounts: who could append to the agent of a service would not gain by it.
func TestFirstStatementCounts(t *testing.T) {
	if n, _ := Subscribers("NewsBlur Feed Fetcher - 2 subscribers - http://x.example/ (900000 subscribers)"); n != 2 {
		t.Errorf("%d", n)
	}
}

// FuzzSubscribers: nothing breaks it, a number is in its bounds, and what is put behind an
// agent that says nothing is found.
func FuzzSubscribers(f *testing.F) {
	for _, seed := range []string{
		"Feedly/1.0 (poller; 7 subscribers;)", "users 1,204", "ThePort_Web/1.0;_subscribers_1", "Subscriber Count: 9", "subscriber(s", "1.2.3.readers",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, agent string) {
		n, ok := Subscribers(agent)
		if n < 0 || n > mostSubscribers || !ok && n != 0 {
			t.Errorf("%q: %d, %v", agent, n, ok)
		}
		if !ok {
			if n, ok := Subscribers(agent + " ; 42 subscribers"); !ok || n != 42 {
				t.Errorf("%q with 42 subscribers: %d, %v", agent, n, ok)
			}
		}
	})
}

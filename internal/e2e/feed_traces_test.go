package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"
)

const (
	reader = "203.0.113.7"
	day    = 24 * time.Hour
)

// TestFeedTraces plays what readers of feeds were seen to do, each by the name of its trace,
// with all options at their defaults.
func TestFeedTraces(t *testing.T) {
	for _, trace := range []struct {
		name string
		play func(b *blog)
	}{
		{"T01 hourly, sometimes after 59 minutes and once after 44", func(b *blog) {
			tag := b.get(200, reader).Header().Get("Etag")
			for i := range 7 * 24 {
				switch {
				case i == 100:
					b.pass(44 * time.Minute)
				case i%3 == 0:
					b.pass(59 * time.Minute)
				default:
					b.pass(time.Hour)
				}
				b.get(304, reader, "If-None-Match", tag)
			}
		}},
		{"T01 early by a tenth, always", func(b *blog) {
			tag := b.get(200, reader).Header().Get("Etag")
			for range 7 * 24 {
				b.pass(54 * time.Minute)
				b.get(304, reader, "If-None-Match", tag)
			}
		}},
		{"T03 a browser's add-on, once a minute, nothing shown", func(b *blog) {
			if got := b.often(time.Minute, day, reader, "User-Agent", "Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0"); got[200] > 5 || got[429] < 1435 {
				b.Errorf("%v", got)
			}
		}},
		{"T04 subscribing: three in two seconds", func(b *blog) {
			for range 3 {
				b.get(200, reader, "User-Agent", "NetNewsWire (RSS Reader; https://netnewswire.com/)")
				b.pass(time.Second)
			}
			tag := b.tag()
			for range 48 {
				b.pass(time.Hour)
				b.get(304, reader, "If-None-Match", tag)
			}
		}},
		{"T06 four in a second, hourly", func(b *blog) {
			tag := b.tag()
			for range 48 {
				for range 4 {
					b.get(304, reader, "If-None-Match", tag, "User-Agent", "newsboat/2.21.0 (Linux x86_64)")
					b.pass(300 * time.Millisecond)
				}
				b.pass(time.Hour)
			}
		}},
		{"T07 forgets its validators once", func(b *blog) {
			b.get(200, reader)
			b.pass(time.Hour)
			tag := b.get(200, reader).Header().Get("Etag")
			b.pass(time.Hour)
			b.get(304, reader, "If-None-Match", tag)
		}},
		{"T09 keeps an old tag while the date stays: each version comes three times, and a little more", func(b *blog) {
			tag := b.get(200, reader).Header().Get("Etag")
			refused := 0
			for range 6 {
				b.pass(time.Millisecond) // of the same second for the date
				b.publish("/feed.xml", "")
				b.tag()
				b.get(200, reader, "If-None-Match", tag)
				for range 6 {
					b.pass(5 * time.Second)
					if b.ask(http.MethodGet, reader, "/feed.xml", "If-None-Match", tag).Code == 429 {
						refused++
					}
				}
			}
			if refused < 18 {
				b.Errorf("%d refused", refused)
			}
		}},
		{"two devices at home, every half hour: 304, and both get what is new", func(b *blog) {
			tags := [2]string{}
			for i := range tags {
				tags[i] = b.get(200, reader).Header().Get("Etag")
				b.pass(15 * time.Minute)
			}
			for range 8 {
				b.publish("/feed.xml", "")
				b.tag()
				for round := range 20 {
					for i := range tags {
						want := 304
						if round == 0 {
							want = 200
						}
						if got := b.get(want, reader, "If-None-Match", tags[i]).Header().Get("Etag"); got != "" {
							tags[i] = got
						}
						b.pass(15 * time.Minute)
					}
				}
			}
		}},
		{"T10 a pair that is stale for months", func(b *blog) {
			b.tag()
			b.pass(time.Hour)
			stale := []string{"If-None-Match", `"from-may"`, "If-Modified-Since", "Fri, 01 May 2020 00:00:00 GMT"}
			if got := b.often(time.Hour, 4*day, reader, stale...); got[200] > 9 || got[200] < 5 {
				b.Errorf("%v", got)
			}
			b.publish("/feed.xml", "")
			b.tag()
			b.get(200, reader, stale...)
		}},
		{"T12 leaves its validators out every eight days", func(b *blog) {
			for range 3 {
				tag := b.get(200, reader).Header().Get("Etag")
				for range 8*24 - 1 {
					b.pass(time.Hour)
					b.get(304, reader, "If-None-Match", tag)
				}
				b.pass(time.Hour)
			}
		}},
		{"T13 dates only, and everything every twelve hours", func(b *blog) {
			for range 10 {
				date := b.get(200, reader).Header().Get("Last-Modified")
				for range 11 {
					b.pass(time.Hour)
					b.get(304, reader, "If-Modified-Since", date)
				}
				b.pass(time.Hour)
			}
		}},
		{"T13 does not heed Retry-After: the wait does not grow", func(b *blog) {
			for b.ask(http.MethodGet, reader, "/feed.xml").Code == 200 {
				b.pass(time.Minute)
			}
			refusedAt := b.now
			for served := false; !served; {
				b.pass(90 * time.Minute)
				served = b.ask(http.MethodGet, reader, "/feed.xml").Code == 200
				if b.now.Sub(refusedAt) > day {
					b.Fatal("not served within a day")
				}
			}
		}},
		{"T15 six feeds of a host at once", func(b *blog) {
			for i := range 6 {
				path := fmt.Sprintf("/feed-%d.xml", i)
				b.publish(path, "")
				if w := b.ask(http.MethodGet, reader, path); w.Code != 200 {
					b.Errorf("%s: %d", path, w.Code)
				}
				b.pass(20 * time.Millisecond)
			}
		}},
		{"T16 twelve an hour for eight days, nothing shown", func(b *blog) {
			got := b.often(5*time.Minute, 8*day, reader, "User-Agent", "Amazon Music Podcast")
			if got[200] > 13 {
				b.Errorf("%v", got)
			}
			w := b.get(429, reader)
			if after, err := strconv.Atoi(w.Header().Get("Retry-After")); err != nil || after < 1 || after > 86400 {
				b.Errorf("Retry-After %q", w.Header().Get("Retry-After"))
			}
		}},
		{"T18 refusals are small, plain, and nothing to keep", func(b *blog) {
			b.often(time.Minute, 10*time.Minute, reader, "User-Agent", "Googlebot/2.1")
			w := b.get(429, reader)
			h := w.Header()
			if w.Body.Len() == 0 || w.Body.Len() >= 200 || h.Get("Content-Type") != "text/plain; charset=utf-8" ||
				h.Get("Cache-Control") != "no-store" || h.Get("Etag") != "" || h.Get("Last-Modified") != "" {
				b.Errorf("%v %s", h, w.Body)
			}
		}},
		{"T21 a generic agent that sends a date", func(b *blog) {
			date := b.get(200, reader).Header().Get("Last-Modified")
			if got := b.often(time.Hour, 2*day, reader, "If-Modified-Since", date, "User-Agent", "Wget/1.21.3"); got[304] != 48 {
				b.Errorf("%v", got)
			}
		}},
		{"T22 no agent at all", func(b *blog) {
			tag := b.get(200, reader, "User-Agent", "").Header().Get("Etag")
			b.pass(time.Hour)
			b.get(304, reader, "User-Agent", "", "If-None-Match", tag)
		}},
		{"T24 once a minute for days: bytes", func(b *blog) {
			bytes := 0
			for range 3 * 24 * 60 {
				bytes += b.ask(http.MethodGet, reader, "/feed.xml").Body.Len()
				b.pass(time.Minute)
			}
			// A whole feed at a time would be 30 MB, and refusals are some 50 bytes.
			if bytes > 400_000 {
				b.Errorf("%d bytes", bytes)
			}
		}},
		{"T27 two in an office with one agent: both get what is new", func(b *blog) {
			for range 6 {
				b.publish("/feed.xml", "")
				b.get(200, reader)
				b.pass(time.Minute)
				b.get(200, reader)
				b.pass(day)
			}
		}},
		{"T28 every fifty minutes: served again", func(b *blog) {
			if got := b.often(50*time.Minute, 5*day, reader); got[200] < 7 {
				b.Errorf("%v", got)
			}
		}},
		{"T30 HEAD, then GET, from many addresses", func(b *blog) {
			for i := range 300 {
				client := fmt.Sprintf("198.51.%d.%d", i/250, 1+i%250)
				for _, method := range []string{http.MethodHead, http.MethodGet} {
					if w := b.ask(method, client, "/feed.xml", "User-Agent", "http.rb/2.2.2 (Mastodon/1.5.0; +https://a.example/)"); w.Code != 200 {
						b.Fatalf("%s from %s: %d", method, client, w.Code)
					}
				}
			}
		}},
		{"T33 names of aggregators are only names", func(b *blog) {
			agents := []string{
				"Feedly/1.0 (+http://www.feedly.com/fetcher.html; 50 subscribers; like FeedFetcher-Google)",
				"NewsBlur Feed Fetcher - 200 subscribers - http://www.newsblur.com/",
			}
			served := 0
			for i := range 500 {
				if b.ask(http.MethodGet, reader, "/feed.xml", "User-Agent", agents[i%2]).Code == 200 {
					served++
				}
				b.pass(10 * time.Second)
			}
			if served > 5 {
				b.Errorf("%d served", served)
			}
		}},
		{"T34 every five minutes, politely: 304, and the news at once", func(b *blog) {
			tag := b.get(200, reader).Header().Get("Etag")
			if got := b.often(5*time.Minute, day, reader, "If-None-Match", tag); got[304] != 288 {
				b.Errorf("%v", got)
			}
			b.publish("/feed.xml", "")
			b.tag()
			b.get(200, reader, "If-None-Match", tag)
		}},
		{"T37 39,000 in a minute from a hundred addresses", func(b *blog) {
			served, bytes := 0, 0
			for i := range 39_000 {
				w := b.ask(http.MethodGet, fmt.Sprintf("198.51.100.%d", i%100+1), "/feed.xml", "User-Agent", "Mozilla/5.0 (Windows NT 10.0) Chrome/126.0")
				if w.Code == http.StatusOK {
					served++
				}
				bytes += w.Body.Len()
				b.pass(time.Minute / 39_000)
			}
			// All of them would be 270 MB. Each address gets what subscribing, news and its budget give it, some of
			// it four times, as the same again: 24.
			if served > 2500 || bytes > 21_000_000 {
				b.Errorf("%d served, %d bytes", served, bytes)
			}
		}},
		{"T39 whatever the query says, and however the path is written", func(b *blog) {
			served := 0
			for i := range 40 {
				for _, path := range []string{"/feed.xml?null", "/feed.xml?_=" + strconv.Itoa(i), "/feed.xml?utm_source=a%20b", "//feed.xml", "/blog/../feed.xml", "/%66eed.xml"} {
					if b.ask(http.MethodGet, reader, path).Code == 200 {
						served++
					}
					b.pass(15 * time.Second)
				}
			}
			if served > 5 {
				b.Errorf("%d served", served)
			}
		}},
		{"T40 two agents of one reader in one second", func(b *blog) {
			b.publish("/favicon.ico", "")
			if w := b.ask(http.MethodGet, reader, "/favicon.ico", "User-Agent", "Mozilla/5.0 Favicon; +https://a.example/"); w.Code != 200 {
				b.Errorf("icon: %d", w.Code)
			}
			b.get(200, reader, "User-Agent", "Mozilla/4.0 (compatible; MSIE 6.0)")
		}},
		{"T42 a hosted reader with tags", func(b *blog) {
			tag := b.tag()
			if got := b.often(time.Hour, 2*day, "192.0.2.77", "If-None-Match", tag); got[304] != 48 {
				b.Errorf("%v", got)
			}
		}},
	} {
		t.Run(trace.name, func(t *testing.T) { trace.play(newBlog(t, "feed")) })
	}
}

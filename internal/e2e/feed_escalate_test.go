package e2e

import (
	"net/http"
	"strconv"
	"testing"
	"time"
)

const rudeAgent = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"

// TestFeedEscalate plays traces against a zone that lets who does not wait have less and less.
func TestFeedEscalate(t *testing.T) {
	for _, trace := range []struct {
		name, lines string
		play        func(b *blog)
	}{
		{"T18 every ten minutes, no heed of Retry-After: a whole feed in eight budgets, and what is new", "feed {\n\tescalate\n}", func(b *blog) {
			whole := b.often(10*time.Minute, 20*day, reader, "User-Agent", rudeAgent)
			if whole[200] < 5 || whole[200] > 7 {
				b.Errorf("%v", whole)
			}
			b.publish("/feed.xml", "")
			tag := b.tag()
			b.get(200, reader, "User-Agent", rudeAgent)
			b.pass(10 * time.Minute)
			b.get(429, reader, "User-Agent", rudeAgent)
			for range 24 { // polls from the same address are nobody's fault
				b.pass(time.Hour)
				b.get(304, reader, "If-None-Match", tag)
				b.get(304, reader, "If-None-Match", tag, "User-Agent", rudeAgent)
			}
		}},
		{"T18 by default: one a day", "feed", func(b *blog) {
			if whole := b.often(10*time.Minute, 20*day, reader, "User-Agent", rudeAgent); whole[200] < 22 || whole[200] > 27 {
				b.Errorf("%v", whole)
			}
		}},
		{"T18 and who waits at last is served", "feed {\n\tescalate 100\n}", func(b *blog) {
			b.often(10*time.Minute, 3*day, reader, "User-Agent", rudeAgent)
			w := b.get(429, reader, "User-Agent", rudeAgent)
			after, err := strconv.Atoi(w.Header().Get("Retry-After"))
			if err != nil || after > 86400 {
				b.Errorf("Retry-After %q", w.Header().Get("Retry-After"))
			}
			b.pass(time.Duration(after) * time.Second)
			b.get(200, reader, "User-Agent", rudeAgent)
		}},
		{"T13 dates only, and everything every twelve hours", "feed {\n\tescalate\n}", func(b *blog) {
			for range 10 {
				date := b.get(200, reader).Header().Get("Last-Modified")
				for range 11 {
					b.pass(time.Hour)
					b.get(304, reader, "If-Modified-Since", date)
				}
				b.pass(time.Hour)
			}
		}},
		{"T25 and T27 many with one key are not held to what one of them does", "feed {\n\tescalate\n\tpeople {\n\t\toverride 203.0.113.0/24 2\n\t}\n}", func(b *blog) {
			if whole := b.often(10*time.Minute, 20*day, reader); whole[200] < 42 || whole[200] > 55 {
				b.Errorf("%v", whole)
			}
		}},
		{"T34 strictly", "feed {\n\tstrict\n\tescalate\n}", func(b *blog) {
			tag := b.get(200, reader).Header().Get("Etag")
			if got := b.often(5*time.Minute, day, reader, "If-None-Match", tag); got[304] < 24 {
				b.Errorf("%v", got)
			}
			b.publish("/feed.xml", "")
			b.tag()
			if w := b.ask(http.MethodGet, reader, "/feed.xml", "If-None-Match", tag); w.Code != 200 {
				b.Errorf("news: %d", w.Code)
			}
		}},
	} {
		t.Run(trace.name, func(t *testing.T) { trace.play(newBlog(t, trace.lines)) })
	}
}

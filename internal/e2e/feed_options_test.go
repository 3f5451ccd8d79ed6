package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"
)

// TestFeedOptions plays traces against zones that want something else.
func TestFeedOptions(t *testing.T) {
	for _, trace := range []struct {
		name, lines string
		play        func(b *blog)
	}{
		{"T25 a town behind one address", "feed {\n\tpeople {\n\t\tmax 50\n\t}\n}", func(b *blog) {
			agent := func(i int) string { return fmt.Sprintf("Reader/%d", i) }
			tag := ""
			for i := range 30 {
				tag = b.get(200, reader, "User-Agent", agent(i)).Header().Get("Etag")
				b.pass(time.Minute)
			}
			for range 24 {
				for i := range 30 {
					b.get(304, reader, "User-Agent", agent(i), "If-None-Match", tag)
					b.pass(2 * time.Minute)
				}
			}
			b.publish("/feed.xml", "")
			b.tag()
			for i := range 30 { // A13
				b.get(200, reader, "User-Agent", agent(i))
				b.pass(time.Minute)
			}
		}},
		{"T34 strictly: nine in ten are refused", "feed {\n\tstrict\n}", func(b *blog) {
			tag := b.get(200, reader).Header().Get("Etag")
			if got := b.often(5*time.Minute, day, reader, "If-None-Match", tag); got[429] < 255 || got[304]+got[429] != 288 {
				b.Errorf("%v", got)
			}
		}},
		{"A6 304 to who has it, and to nobody else", "feed {\n\tover not_modified\n}", func(b *blog) {
			b.often(time.Minute, 10*time.Minute, reader)
			w := b.get(304, reader)
			if w.Header().Get("Etag") == "" || w.Header().Get("Last-Modified") == "" || w.Header().Get("Cache-Control") != "max-age=3600" || w.Body.Len() > 0 {
				b.Errorf("%v %s", w.Header(), w.Body)
			}
			b.publish("/feed.xml", "")
			b.tag()
			b.get(200, reader)
			b.pass(time.Minute)
			b.get(304, reader)
		}},
		{"A7 everything for an hour after a change", "feed {\n\tover announce 1h\n}", func(b *blog) {
			b.tag()
			if got := b.often(5*time.Minute, 55*time.Minute, reader); got[200] != 11 {
				b.Errorf("%v", got)
			}
			b.pass(10 * time.Minute)
			if got := b.often(5*time.Minute, time.Hour, reader); got[200] != 3 || got[304] != 9 {
				b.Errorf("%v", got)
			}
		}},
		{"A22 the reader is told why, once a day", "feed {\n\tover explain 5\n}", func(b *blog) {
			var told, refused int
			for range 30 {
				w := b.ask(http.MethodGet, reader, "/feed.xml")
				switch {
				case w.Code == 429:
					refused++
				case w.Header().Get("Cache-Control") == "no-store":
					told++
					if refused != 5 || w.Header().Get("Etag") != "" || w.Header().Get("Content-Type") != "application/rss+xml; charset=utf-8" {
						b.Errorf("after %d refusals: %v", refused, w.Header())
					}
				}
				b.pass(time.Minute)
			}
			if told != 1 {
				b.Errorf("told %d times", told)
			}
		}},
		{"A8 aliases and parameters", "feed {\n\talias /feed.xml /rss.xml\n\tparameters tag\n}", func(b *blog) {
			b.publish("/rss.xml", "")
			for range 10 {
				b.ask(http.MethodGet, reader, "/feed.xml")
				b.pass(time.Minute)
			}
			if w := b.ask(http.MethodGet, reader, "/rss.xml"); w.Code != 429 {
				b.Errorf("alias: %d", w.Code)
			}
			if w := b.ask(http.MethodGet, reader, "/feed.xml?tag=go"); w.Code != 200 {
				b.Errorf("another feed: %d", w.Code)
			}
		}},
		{"A16 and A17 what the feed says of itself", "feed", func(b *blog) {
			b.publish("/feed.xml", "<ttl>120</ttl><skipHours><hour>3</hour><hour>4</hour></skipHours>")
			w := b.get(200, reader, "Accept-Encoding", "gzip")
			tag := w.Header().Get("Etag")
			b.pass(2 * time.Hour)
			if w = b.get(304, reader, "If-None-Match", tag, "Accept-Encoding", "gzip"); w.Header().Get("Cache-Control") != "max-age=7200" {
				b.Errorf("304: %v", w.Header())
			}
			if age := b.fresh().Get("Cache-Control"); age != "max-age=7200" {
				b.Errorf("200: %q", age)
			}
			b.pass(13*time.Hour + time.Second) // 3 o'clock
			b.get(304, reader, "If-None-Match", tag, "Accept-Encoding", "gzip")
			w = b.get(429, reader)
			if after, _ := strconv.Atoi(w.Header().Get("Retry-After")); after < 7200 || after > 7920 {
				b.Errorf("Retry-After: %d", after)
			}
			b.get(200, "203.0.113.99") // subscribes
		}},
		{"A16 unless the site says", "feed {\n\tmax_age 30m\n}", func(b *blog) {
			if age := b.fresh().Get("Cache-Control"); age != "max-age=1800" {
				b.Errorf("%q", age)
			}
		}},
	} {
		t.Run(trace.name, func(t *testing.T) { trace.play(newBlog(t, trace.lines)) })
	}
}

// TestFeedAndFileServer plays the table of what the file server really does: what is shown to
// have been made up is charged as a whole feed, whatever the answer.
func TestFeedAndFileServer(t *testing.T) {
	b := newBlog(t, "feed")
	w := b.get(200, reader, "Accept-Encoding", "gzip")
	tag, date := w.Header().Get("Etag"), w.Header().Get("Last-Modified")
	bare := b.ask(http.MethodGet, reader, "/feed.xml", "If-None-Match", tag, "Accept-Encoding", "gzip").Header().Get("Etag")
	for name, shown := range map[string][2]string{
		"as it was given":     {"If-None-Match", tag},
		"as a 304 names it":   {"If-None-Match", bare},
		"weak, in a list":     {"If-None-Match", `"x", W/` + bare},
		"the date":            {"If-Modified-Since", date},
		"as it was, no codec": {"If-None-Match", bare},
	} {
		b.pass(2 * time.Hour)
		if w := b.ask(http.MethodGet, reader, "/feed.xml", shown[0], shown[1], "Accept-Encoding", "gzip"); w.Code != 304 {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	for name, shown := range map[string][2]string{
		"unquoted":         {"If-None-Match", "abc"},
		"an unknown tag":   {"If-None-Match", `"abc"`},
		"garbage":          {"If-Modified-Since", "yesterday"},
		"an offset":        {"If-Modified-Since", "Sun, 01 Mar 2026 11:59:59 +0000"},
		"nothing of worth": {"If-None-Match", ""},
	} {
		client := "192.0.2." + strconv.Itoa(len(name))
		got := b.often(time.Minute, 20*time.Minute, client, shown[0], shown[1])
		if got[200] != 4 || got[429] != 16 {
			t.Errorf("%s: %v", name, got)
		}
	}
	for name, shown := range map[string][2]string{
		"star":           {"If-None-Match", "*"},
		"a date to come": {"If-Modified-Since", "Thu, 01 Jan 2099 00:00:00 GMT"},
	} {
		client := "192.0.2." + strconv.Itoa(100+len(name))
		// A twentieth of a whole feed each, of which three are in the budget; the first
		// one subscribes.
		got := b.often(time.Second*3, 5*time.Minute, client, shown[0], shown[1])
		if got[304] < 40 || got[429] == 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

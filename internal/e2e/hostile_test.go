package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/weirhq/caddy-weir/internal/redistest"
)

// hostile are values that a client may put where a key comes from, each of them its own:
// what would split a line, end a text, or fill a disk. The log shows the first of them for
// certain.
func hostile() []string {
	huge := strings.Repeat("a", 1_000_000)
	return []string{
		"\xff\u202e\u009b" + huge, "plain", "a:b", "a", "b", ":", "a:b:", "é", "\xff", "\xfe\xff", "\xc3", "a\tb", `a\b`, `"`, "{a}", "{http.request.host}", "*", "%00", "%",
		"weir:secret", "@127.0.0.1", "@", huge, huge + "a", huge[1:] + "b", huge[:256], huge[:257],
	}
}

// encoded are values that only a query or a path can bring, since no header may hold them. The
// log shows the first of them for certain.
var encoded = []string{
	"a%c2%9b31m%e2%80%ae%7f%0a%00", "%00", "%00%00", "a%00", "%0d%0aSet-Cookie:%20a=b", "%0a", "%1b%5b2J", "%7f", "%ff%fe", "%e2%80%ae", "%0d%0a%0d%0a%3chtml%3e",
}

// TestHostileKeys limits by what clients send at their worst. Each value has a budget of its
// own, names on Redis are short and printable, in clear as well, and neither the log nor an
// answer holds a raw byte of them (L79, L80, L121, B34).
func TestHostileKeys(t *testing.T) {
	t.Parallel()
	for _, hash := range []string{"on", "off"} {
		t.Run("hash "+hash, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t, redistest.Options{})
			s := serve(t, `{
	servers {
		max_header_size 4MB
	}
	weir {
		redis `+redis.Addr()+` {
			timeout 5s
		}
		hash_keys `+hash+`
	}
}
:{$PORT} {
	rate_limit {
		zone key {
			match {
				not query q=*
			}
			key {header.X-A} {header.X-B}
			limit 1/1h
		}
		zone query {
			match {
				query q=*
			}
			key {query.q} {path}
			limit 1/1h
		}
		log_key
	}
	respond "through"
}
`)
			once := func(target string, lines ...string) {
				t.Helper()
				for i, want := range []int{200, 429} {
					a := raw(t, s.addr(), target, lines...)
					if a.status != want {
						t.Errorf("%.80q %.80q: request %d: %d, want %d", target, lines, i, a.status, want)
					}
					if len(a.header) > 12 || len(a.body) > 200 || a.header.Get("Set-Cookie") != "" {
						t.Errorf("%.80q: %v %.200s", lines, a.header, a.body)
					}
				}
			}
			keys := 0
			for _, value := range hostile() {
				once("/", "X-A: "+value)
				once("/", "X-B: "+value)
				once("/", "X-A: "+value, "X-B: x")
				keys += 3
			}
			once("/", "X-A: a:b", "X-B: c")
			once("/", "X-A: a", "X-B: b:c")
			keys += 2
			for _, value := range encoded {
				once("/?q=" + value)
				once("/" + value + "?q=x")
				keys += 2
			}
			names := namesOn(t, redis)
			if len(names) != keys {
				t.Errorf("%d names on Redis for %d keys", len(names), keys)
			}
			for _, name := range names {
				if len(name) > 128 || strings.Trim(name, visible) != "" {
					t.Errorf("name on Redis: %.300q, %d bytes", name, len(name))
				}
			}
			checkLog(t, s)
		})
	}
}

// visible are the characters of ASCII that are neither blank nor control.
var visible = func() string {
	var all strings.Builder
	for c := byte('!'); c <= '~'; c++ {
		all.WriteByte(c)
	}
	return all.String()
}()

// namesOn lists the names of counts on Redis.
func namesOn(t *testing.T, redis *redistest.Server) []string {
	t.Helper()
	// The script's only reply of one line: names hold no blank.
	reply := redis.Do(`EVAL "return table.concat(redis.call('KEYS','weir:*:*'),' ')" 0`)
	return strings.Fields(strings.TrimPrefix(reply, "$"))
}

// checkLog wants every line of the log to be short, and free of what a terminal or another
// reader of lines would act on.
func checkLog(t *testing.T, s *site) {
	t.Helper()
	if err := s.waitLog("rate limit exceeded"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(s.log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if len(line) > 4096 || !strings.HasPrefix(line, "{") || strings.ContainsFunc(line, func(c rune) bool {
			return !unicode.IsPrint(c)
		}) {
			t.Errorf("line of the log, %d bytes: %.300q", len(line), line)
		}
	}
}

// TestHugeRequests sends the largest requests that a server may be told to take: nothing is
// answered with a 5xx, and what is logged stays short.
func TestHugeRequests(t *testing.T) {
	t.Parallel()
	s := serve(t, `{
	servers {
		max_header_size 4MB
	}
}
:{$PORT} {
	block {
		rule agents {
			agent GPTBot CCBot
			user_agent *scan*ner*
		}
		rule header {
			header X-A *x*y*z
		}
		rule path {
			path */a/*/b
			query *q*r*s
		}
	}
	rate_limit {
		zone all {
			match {
				not path /host/*
			}
			key {path} {query} {header.X-A} {header.User-Agent} {host} {method}
			limit 1/1h
		}
		zone hosts {
			match {
				path /host/*
			}
			key {path}
			limit 1/1h
		}
		log_key
	}
	respond "through"
}
`)
	huge := strings.Repeat("xy ", 300_000)
	for name, c := range map[string]struct {
		target string
		lines  []string
	}{
		"path":         {"/" + strings.Repeat("a/", 500_000), nil},
		"dots":         {"/" + strings.Repeat("../a/./", 150_000), nil},
		"query":        {"/?" + strings.Repeat("q&", 500_000), nil},
		"header":       {"/", []string{"X-A: " + huge}},
		"agent":        {"/", []string{"User-Agent: " + strings.Repeat("GPTBo ", 150_000)}},
		"agents":       {"/", []string{"User-Agent: " + strings.Repeat("scan", 200_000)}},
		"many headers": {"/many", strings.Split(strings.Repeat("X-A: xy,", 9_999)+"X-A: xy", ",")},
	} {
		for i, want := range []int{200, 429} {
			if a := raw(t, s.addr(), c.target, c.lines...); a.status != want {
				t.Errorf("%s, request %d: %d, want %d", name, i, a.status, want)
			}
		}
	}
	if a := raw(t, s.addr(), "/", "User-Agent: "+huge+"GPTBot scan ner"); a.status != 403 {
		t.Errorf("name at the end of a huge agent: %d", a.status)
	}
	for i, host := range []string{strings.Repeat("h", 200_000), "a\xffb", "a\u009bb", "a b", "x:y:z", "[::1", "\u202e"} {
		for range 2 {
			if a := raw(t, s.addr(), fmt.Sprint("/host/", i), "Host: "+host); a.status >= 500 {
				t.Errorf("host %.20q: %d", host, a.status)
			}
		}
	}
	checkLog(t, s)
}

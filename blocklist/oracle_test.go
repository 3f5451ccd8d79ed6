package blocklist

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// The judge of the index: every rule, one after the other, by regular expressions and
// linear scans, as the package doc tells.

func plainMatch(r *Rule, q *Request, now time.Time) bool {
	if r.Expired(now) || r.Source != AnySource && r.Source != q.Source {
		return false
	}
	return !slices.ContainsFunc(r.Fields, func(f Field) bool { return !plainField(&f, q) })
}

func plainField(f *Field, q *Request) bool {
	if slices.ContainsFunc(f.Patterns, func(p string) bool { return p != "" && strings.Trim(p, "*") == "" }) {
		return true
	}
	values := map[string][]string{
		"host": {q.Host}, "url": {q.URL}, "path": {q.Path, cmp.Or(strings.TrimSuffix(q.Path, "/"), "/")}, "query": {q.Query}, "method": {q.Method},
		"user_agent": q.Header["User-Agent"], "header": q.Header[f.Header],
	}[f.Name]
	fold := f.Name == "host" || f.Name == "method" || f.Name == "user_agent"
	for _, pattern := range f.Patterns {
		if f.Name == "client_ip" {
			if netip.MustParsePrefix(pattern).Contains(q.Client) {
				return true
			}
			continue
		}
		glob := plainGlobs[fmt.Sprint(pattern, fold)]
		if glob == nil {
			glob = plainGlob(pattern, fold)
			plainGlobs[fmt.Sprint(pattern, fold)] = glob
		}
		if slices.ContainsFunc(values, glob.MatchString) {
			return true
		}
	}
	return false
}

var plainGlobs = make(map[string]*regexp.Regexp)

func plainHits(rules []Rule, q *Request, now time.Time) string {
	var mark, dry []string
	for i := range rules {
		switch r := &rules[i]; {
		case r.Mode == Off || !plainMatch(r, q, now):
		case r.Mode == DryRun:
			dry = append(dry, "dry "+r.Name)
		case r.Action != Mark:
			return r.Name
		case mark == nil:
			mark = []string{r.Name}
		}
	}
	return strings.Join(append(mark, dry...), ", ")
}

func TestSetAgainstPlainLoop(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	outcomes := make(map[string]int)
	for range 300 {
		rules := randomRules(random, 1+random.IntN(40))
		set, err := NewSet(rules)
		if err != nil {
			t.Fatal(err)
		}
		for range 60 {
			q, now := randomRequest(random), noon.Add(time.Duration(random.IntN(3))*time.Second)
			got, want := hits(set, q, now), plainHits(rules, q, now)
			if got != want {
				for i := range rules {
					t.Log(&rules[i])
				}
				t.Fatalf("%+v: got %q, want %q", q, got, want)
			}
			outcomes[got]++
		}
	}
	if len(outcomes) < 40 || outcomes[""] < 1000 {
		t.Errorf("says little: %v", outcomes)
	}
}

// pick returns one of several.
func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

// word returns a text of few letters, so that patterns often match, with upper case now
// and then.
func word(random *rand.Rand, letters string) string {
	text := make([]byte, max(0, random.IntN(10)-4))
	for i := range text {
		text[i] = letters[random.IntN(len(letters))]
	}
	return string(text)
}

func randomPattern(random *rand.Rand) string {
	return word(random, "aB") + pick(random, "", "*", "*") + word(random, "ab") + pick(random, "", "*") + word(random, "ab") + pick(random, "", "*")
}

func randomRules(random *rand.Rand, n int) []Rule {
	var rules []Rule
	for len(rules) < n {
		r := Rule{
			Name: fmt.Sprintf("r%d", len(rules)),
			Mode: pick(random, Enforce, Enforce, DryRun, DryRun, DryRun, Off),
			// Only what marks goes another way than the rest.
			Action: pick(random, 0, 404, Abort, Mark, Mark),
		}
		if random.IntN(3) == 0 {
			r.Expires = noon.Add(time.Duration(random.IntN(3)) * time.Second)
		}
		if random.IntN(6) == 0 {
			r.Source = pick(random, HTTP, WebSocket)
		}
		for _, name := range []string{"host", "path", "url", "query", "method", "client_ip", "user_agent", "header"} {
			if random.IntN(4) > 0 {
				continue
			}
			f := Field{Name: name}
			if name == "header" {
				f.Header = pick(random, "X-A", "X-B")
			}
			for range 1 + random.IntN(3) {
				pattern := randomPattern(random)
				switch name {
				case "path", "url":
					pattern = pick(random, "/", "*") + pattern
				case "client_ip":
					pattern = netip.PrefixFrom(randomAddr(random), random.IntN(33)).Masked().String()
				}
				f.Patterns = append(f.Patterns, pattern)
			}
			r.Fields = append(r.Fields, f)
		}
		if r.Check() == nil {
			rules = append(rules, r)
		}
	}
	return rules
}

func randomAddr(random *rand.Rand) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(random.IntN(2)), byte(random.IntN(2) << 7), byte(random.IntN(4))})
}

func randomRequest(random *rand.Rand) *Request {
	text := func() string { return word(random, "aaBb") + word(random, "ab") }
	q := &Request{
		Source: pick(random, HTTP, WebSocket),
		Host:   "a" + text(), URL: "/" + text(), Path: "/" + text() + pick(random, "", "", "/"), Query: text(), Method: "b" + text(),
		Header: map[string][]string{},
	}
	if random.IntN(8) > 0 {
		q.Client = randomAddr(random)
	}
	for _, name := range []string{"X-A", "X-B", "User-Agent"} {
		for range random.IntN(3) {
			q.Header[name] = append(q.Header[name], text())
		}
	}
	return q
}

package blocklist

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// agentRule refuses the names.
func agentRule(name string, names ...string) Rule {
	return Rule{Name: name, Fields: []Field{{Name: "agent", Patterns: names}}}
}

// from is a request with the user agents.
func from(agents ...string) *Request {
	return &Request{Source: HTTP, Path: "/", URL: "/", Method: "GET", Header: map[string][]string{"User-Agent": agents}}
}

// B28, L134: a name is a whole word, or several.
func TestAgent(t *testing.T) {
	for _, c := range []struct {
		name, agent string
		want        bool
	}{
		{"GPTBot", "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)", true},
		{"gptbot", "GPTBOT", true},
		{"GPTBot", "gptbot/1.0", true},
		{"GPTBot", "MyGPTBot/1.0", false},
		{"GPTBot", "GPTBots", false},
		{"GPTBot", "GPTBot2", false},
		{"GPTBot", "GPTBot_2", false},
		{"GPTBot", "GPTBot-2", true},
		{"GPTBot", "éGPTBot", false},
		{"GPTBot", "GPTBoté", false},
		{"GPTBot", "MyGPTBot GPTBot", true},
		{"GPTBot", "GPTBo GPTBot", true},
		{"git", "feeds.github.example reader", false},
		{"hub", "github", false},
		{"github", "githubusercontent", false},
		{"github", "MyReader (+https://github.com/me/reader)", true},
		{"Claude-Web", "x Claude-Web/1", true},
		{"Claude-Web", "x Claude-Website", false},
		{"Claude-Web", "x Claude Web", false},
		{"AI2Bot", "AI2Bot-Dolma", true},
		{"ISS AI Crawler", "the iss ai crawler!", true},
		{"b c", "a b b c", true},
		{"(compatible;", "Mozilla/4.0 (compatible; MSIE 6.0)", true},
		{"(compatible;", "Mozilla(compatible;MSIE)", true},
		{"facebookexternalhit/1.1", "facebookexternalhit/1.1 (+http://…)", true},
		{"facebookexternalhit/1.1", "facebookexternalhit/1.11", false},
		{"été", "l'ÉtÉ été", true},
		{"a", "a", true},
		{"a", "", false},
		{"curl", "cur", false},
	} {
		set, err := NewSet([]Rule{agentRule("r", c.name)})
		if err != nil {
			t.Fatal(err)
		}
		if got := hits(set, from(c.agent), noon) != ""; got != c.want {
			t.Errorf("%q in %q: got %v, want %v", c.name, c.agent, got, c.want)
		}
	}
}

// A rule's other fields count as well, several headers are looked at, and rules keep their
// order.
func TestAgentAmongFields(t *testing.T) {
	both := agentRule("both", "alpha", "beta")
	both.Fields = append(both.Fields, Field{Name: "path", Patterns: []string{"/feed*"}})
	placed := agentRule("placed", "beta")
	placed.Fields = append(placed.Fields, Field{Name: "client_ip", Patterns: []string{"10.0.0.0/8"}})
	trial := agentRule("trial", "gamma")
	trial.Mode = DryRun
	set, err := NewSet([]Rule{
		both, placed, trial, agentRule("last", "beta gamma", "gamma delta"),
		{Name: "glob", Fields: []Field{{Name: "user_agent", Patterns: []string{"*omega*"}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, client string
		agents       []string
		want         string
	}{
		{"/feed.xml", "10.1.1.1", []string{"x/1 Beta/2"}, "both"},
		{"/", "10.1.1.1", []string{"x/1 Beta/2"}, "placed"},
		{"/", "11.1.1.1", []string{"x/1 Beta/2"}, ""},
		{"/", "11.1.1.1", []string{"x/1", "beta gamma"}, "last"},
		{"/", "11.1.1.1", []string{"beta", "gamma"}, "dry trial"},
		{"/", "11.1.1.1", []string{"beta gamma delta"}, "last"},
		{"/", "11.1.1.1", []string{"the OMEGA thing"}, "glob"},
		{"/", "11.1.1.1", nil, ""},
	} {
		q := from(c.agents...)
		q.Path, q.Client = c.path, netip.MustParseAddr(c.client)
		if got := hits(set, q, noon); got != c.want {
			t.Errorf("%s %s %q: got %q, want %q", c.path, c.client, c.agents, got, c.want)
		}
	}
}

func TestAgentErrors(t *testing.T) {
	for name, want := range map[string]string{
		"":                              `rule "r": agent: "" must have a letter or a digit`,
		"*":                             `rule "r": agent: "*" is a name, not a pattern: use user_agent`,
		"bad*bot":                       `rule "r": agent: "bad*bot" is a name, not a pattern: use user_agent`,
		" x":                            `rule "r": agent: " x" must not begin or end with a blank`,
		"/":                             `rule "r": agent: "/" must have a letter or a digit`,
		strings.Repeat("x", MaxAgent+1): "must be at most 256 bytes, got 257",
	} {
		r := agentRule("r", "fine", name)
		if got := message(r.Check()); !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	none := agentRule("r")
	if got := message(none.Check()); got != `rule "r": agent: must have a pattern` {
		t.Errorf("none: got %q", got)
	}
	many := make([]string, MaxAgents+1)
	for i := range many {
		many[i] = "x"
	}
	if _, err := NewSet([]Rule{agentRule("r", many...)}); err == nil {
		t.Error("took more names than there may be")
	}
}

// plainAgent is the judge: a regular expression, one name after the other.
func plainAgent(name, agent string) bool {
	edge := `(?:^|$|[^0-9a-z_\x80-\xff])`
	name = regexp.QuoteMeta(strings.ToLower(name))
	agent = strings.ToLower(agent)
	re := plainAgents[name]
	if re == nil {
		// A byte that is no word's needs no edge.
		before, after := `(?:^|[^0-9a-z_])`, edge
		if strings.HasPrefix(name, "-") {
			before = ""
		}
		if strings.HasSuffix(name, "-") {
			after = ""
		}
		re = regexp.MustCompile(before + name + after)
		plainAgents[name] = re
	}
	return re.MatchString(agent)
}

var plainAgents = make(map[string]*regexp.Regexp)

// Names that contain, begin and overlap one another, in texts made of the same letters.
func TestAgentsAgainstPlainSearch(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	text := func(most int) string {
		b := make([]byte, 1+random.IntN(most))
		for i := range b {
			b[i] = "aAbB--_"[random.IntN(7)]
		}
		return string(b)
	}
	found := 0
	for range 400 {
		var rules []Rule
		for len(rules) < 1+random.IntN(20) {
			r := agentRule(fmt.Sprint("r", len(rules)), text(5), text(5))
			r.Mode = DryRun
			if r.Check() == nil {
				rules = append(rules, r)
			}
		}
		set, err := NewSet(rules)
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			agent, want := text(20), []string(nil)
			for _, r := range rules {
				if slices.ContainsFunc(r.Fields[0].Patterns, func(n string) bool { return plainAgent(n, agent) }) {
					want = append(want, "dry "+r.Name)
					found++
				}
			}
			if got := hits(set, from(agent), noon); got != strings.Join(want, ", ") {
				for _, r := range rules {
					t.Log(&r)
				}
				t.Fatalf("%q: got %q, want %q", agent, got, want)
			}
		}
	}
	if found < 5000 {
		t.Errorf("says little: %d names found", found)
	}
}

// agentNames makes n names of the kind that crawlers have.
func agentNames(n int) []string {
	random := rand.New(rand.NewPCG(5, 6))
	parts := []string{
		"ama", "zon", "go", "ogle", "bot", "spi", "der", "craw", "ler", "sem", "rush", "ai", "gpt",
		"per", "plex", "web", "scan", "data", "net", "meta", "byte", "fetch", "agent", "search", "-", " ",
	}
	seen := make(map[string]bool)
	var names []string
	for len(names) < n {
		name := ""
		for range 3 + random.IntN(3) {
			name += pick(random, parts...)
		}
		if name = strings.Trim(name, "- "); name != "" && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

const browser = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/127.0.0.0 Safari/537.36"

// agentSets are n names in one rule, and in a rule each.
func agentSets(t testing.TB, n int) map[string]*Set {
	t.Helper()
	names := agentNames(n)
	var rules []Rule
	for _, name := range names {
		rules = append(rules, agentRule(name, name))
	}
	sets := make(map[string]*Set)
	for form, rules := range map[string][]Rule{"one rule": {agentRule("all", names...)}, "rules": rules} {
		set, err := NewSet(rules)
		if err != nil {
			t.Fatal(err)
		}
		sets[form] = set
	}
	return sets
}

func BenchmarkAgents(b *testing.B) {
	for _, n := range []int{100, 5_000, 50_000} {
		hit := "Mozilla/5.0 (compatible; " + agentNames(n)[n/2] + "/1.2; +https://bot.example/about)"
		for form, set := range agentSets(b, n) {
			for name, agent := range map[string]string{"browser": browser, "named": hit} {
				b.Run(fmt.Sprintf("%dnames/%s/%s", n, form, name), func(b *testing.B) {
					r := from(agent)
					b.ReportAllocs()
					for b.Loop() {
						set.Match(r, noon, nil)
					}
				})
			}
		}
	}
}

// Names within names, in a text that is nothing but them: still linear.
func BenchmarkNestedAgents(b *testing.B) {
	var names []string
	for n := range 100 {
		names = append(names, "a"+strings.Repeat(" a", n))
	}
	set, err := NewSet([]Rule{agentRule("all", names...)})
	if err != nil {
		b.Fatal(err)
	}
	r := from(strings.Repeat("a ", 4000) + "b")
	b.ReportAllocs()
	for b.Loop() {
		set.Match(r, noon, nil)
	}
}

func BenchmarkNewSetOfAgents(b *testing.B) {
	rules := []Rule{agentRule("all", agentNames(5_000)...)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := NewSet(rules); err != nil {
			b.Fatal(err)
		}
	}
}

// As in TestMatchAllocatesNothing, the scratch is taken by hand.
func TestAgentsAllocateNothing(t *testing.T) {
	names := agentNames(5_000)
	for form, set := range agentSets(t, 5_000) {
		sc := set.pool.Get().(*scratch)
		for _, agent := range []string{browser, "x " + names[7] + "/1 " + names[8], names[9] + "s"} {
			r := from(agent)
			match := func() {
				set.first(&set.refuse, r, noon, sc)
				sc.reset()
			}
			match()
			if n := testing.AllocsPerRun(100, match); n != 0 {
				t.Errorf("%s: %q: %v allocations", form, agent, n)
			}
		}
	}
}

package blocklist

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// plainName is what a test calls a network.
func plainName(dst []byte, p netip.Prefix) ([]byte, bool) {
	return append(append(dst, "name of "...), Network(nil, p)...), true
}

// only reports whether a rule looks at nothing but one field: those that match anything do not count.
func only(r *Rule, field string) bool {
	looks := 0
	for _, f := range r.Fields {
		anything := slices.ContainsFunc(f.Patterns, func(p string) bool { return p != "" && strings.Trim(p, "*") == "" })
		switch {
		case anything:
		case f.Name != field:
			return false
		default:
			looks++
		}
	}
	return looks == 1 && r.Scope.Kind == ScopeAll
}

// plainSnapshot is the judge of snapshots: their order, told anew, one rule after the other.
func plainSnapshot(s *Snapshot, parts [][]*Rule, q *Request, now time.Time) string {
	if s.Protected.Contains(q.Client) {
		return ""
	}
	for b := range s.Bans.All() {
		network, err := Plain(q.Client).Prefix(b.Bits)
		if err == nil && b.Key == "name of "+string(Network(nil, network)) && !b.Over(now) &&
			(b.Scope.Kind == ScopeAll || b.Scope.Name == strings.ToLower(q.Host)) {
			return "ban"
		}
	}
	matches := func(r *Rule) bool {
		if r.Scope.Kind == ScopeSite && r.Scope.Name != strings.ToLower(q.Host) {
			return false
		}
		if only(r, "agent") {
			return slices.ContainsFunc(q.Header["User-Agent"], func(value string) bool {
				return slices.ContainsFunc(r.Fields[0].Patterns, func(name string) bool { return plainAgent(name, value) })
			}) && !r.Expired(now)
		}
		return plainMatch(r, q, now)
	}
	var mark, dry []string
	for tier := range 3 {
		for _, rules := range parts {
			for _, r := range rules {
				is := 2
				switch {
				case only(r, "client_ip"):
					is = 0
				case only(r, "agent"):
					is = 1
				}
				if is == tier && r.Mode == Enforce && r.Action != Mark && matches(r) {
					if tier == 0 {
						return "address"
					}
					return r.Name
				}
			}
		}
	}
	for _, rules := range parts {
		for _, r := range rules {
			switch {
			case r.Mode == Enforce && r.Action == Mark && matches(r) && mark == nil:
				mark = []string{r.Name}
			case r.Mode == DryRun && matches(r):
				dry = append(dry, "dry "+r.Name)
			}
		}
	}
	slices.Sort(dry)
	return strings.Join(append(mark, dry...), ", ")
}

func said(s *Snapshot, q *Request, now time.Time) string {
	hit, dry := s.Match(q, now, nil)
	var words []string
	switch {
	case hit.Ban != nil:
		return "ban"
	case hit.Rule != nil && hit.Rule.Action != Mark && only(hit.Rule, "client_ip"):
		return "address"
	case hit.Rule != nil && hit.Rule.Action != Mark:
		return hit.Rule.Name
	}
	for _, r := range dry {
		words = append(words, "dry "+r.Name)
	}
	slices.Sort(words)
	if hit.Rule != nil {
		words = append([]string{hit.Rule.Name}, words...)
	}
	return strings.Join(words, ", ")
}

// Parts that grew out of others, rule by rule, say what plain loops say.
func TestSnapshotAgainstPlainLoop(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	outcomes := make(map[string]int)
	for range 60 {
		var parts [2]*Part
		var rules [2][]*Rule
		for round := range 8 {
			n := random.IntN(2)
			for _, r := range randomRules(random, 1+random.IntN(12)) {
				r.Name = fmt.Sprintf("%d-%d-%s", n, round, r.Name)
				switch random.IntN(8) {
				case 0, 1:
					r.Fields = []Field{{Name: "client_ip", Patterns: []string{
						netip.PrefixFrom(randomAddr(random), 20+random.IntN(13)).Masked().String(), randomAddr(random).String() + "/32",
					}}}
				case 2:
					r.Fields = []Field{{Name: "agent", Patterns: []string{"aa", "ab", "b"}}}
					r.Source = AnySource
				case 3:
					r.Scope = Scope{ScopeSite, pick(random, "aa", "ab", "aab")}
				}
				rules[n] = append(rules[n], &r)
			}
			for len(rules[n]) > 30 || random.IntN(3) > 0 && len(rules[n]) > 1 {
				at := random.IntN(len(rules[n]))
				rules[n] = slices.Delete(slices.Clone(rules[n]), at, at+1)
			}
			var err error
			if parts[n], err = NewPart("p", rules[n], parts[n]); err != nil {
				t.Fatal(err)
			}
			s := &Snapshot{Parts: []*Part{parts[0], parts[1]}, Name: plainName, Budget: &Budget{Now: func() time.Time { return noon }}}
			s.Parts = slices.DeleteFunc(s.Parts, func(p *Part) bool { return p == nil })
			s.Protected, _ = ParsePrefixes([]string{"10.0.0.0/32"})
			s.Bans = BansOf(
				&Ban{Key: "name of 10.0.0.3", Origin: "a", Bits: 32, Until: noon.Add(time.Second)},
				&Ban{Key: "name of 10.1.128.0/24", Origin: "a", Bits: 24, Scope: Scope{ScopeSite, "aa"}, Until: noon.Add(time.Hour)},
				&Ban{Key: "name of 10.1.0.0", Origin: "a", Bits: 32, Scope: zoneScope("z"), Until: noon.Add(time.Hour)},
			)
			for range 60 {
				q, now := randomRequest(random), noon.Add(time.Duration(random.IntN(3))*time.Second)
				got, want := said(s, q, now), plainSnapshot(s, rules[:], q, now)
				if got != want {
					t.Fatalf("%+v: got %q, want %q\n%s", q, got, want, rules)
				}
				outcomes[got]++
			}
		}
	}
	if len(outcomes) < 200 || outcomes["ban"] < 50 || outcomes["address"] < 50 || outcomes[""] < 200 {
		t.Errorf("says little: %d outcomes, %d bans, %d addresses, %d pass", len(outcomes), outcomes["ban"], outcomes["address"], outcomes[""])
	}
}

// A list takes a million ranges, and single ones may end before the rest.
func TestListPart(t *testing.T) {
	in := netip.MustParsePrefix("192.0.2.0/24")
	p, err := NewListPart(Entries{
		Rule:     Rule{Name: "list", Action: 429},
		Prefixes: []netip.Prefix{in, netip.MustParsePrefix("198.51.100.0/24")}, Agents: []string{"GPTBot"},
		Until: map[netip.Prefix]time.Time{in: noon.Add(time.Minute)},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &Snapshot{Parts: []*Part{p}}
	for _, tt := range []struct {
		client, agent string
		at            time.Time
		want          bool
	}{
		{"192.0.2.1", "", noon, true},
		{"192.0.2.1", "", noon.Add(time.Minute), false},
		{"198.51.100.1", "", noon.Add(time.Hour), true},
		{"::ffff:198.51.100.1", "", noon, true},
		{"203.0.113.1", "", noon, false},
		{"203.0.113.1", "x GPTBot/1", noon, true},
	} {
		q := &Request{Client: netip.MustParseAddr(tt.client), Header: map[string][]string{"User-Agent": {tt.agent}}}
		hit, _ := s.Match(q, tt.at, nil)
		if (hit.Rule != nil) != tt.want || tt.want && (hit.Rule.Name != "list" || hit.Rule.Action != 429 || hit.From != p) {
			t.Errorf("%+v: %v", tt, hit.Rule)
		}
	}
	if p.Len() != 3 {
		t.Errorf("%d entries", p.Len())
	}
	if _, err := NewListPart(Entries{Rule: Rule{Name: "x", Fields: []Field{{Name: "path", Patterns: []string{"/"}}}}}); err == nil {
		t.Error("fields were taken")
	}
	if _, err := NewListPart(Entries{Rule: Rule{Name: "x", Action: 200}, Prefixes: []netip.Prefix{in}}); err == nil {
		t.Error("a bad action was taken")
	}
}

// One rule more among many leaves the rest as it is.
func TestPartsShare(t *testing.T) {
	var rules []*Rule
	for _, text := range []string{"a client_ip=192.0.2.0/24", "b agent=GPTBot", "c path=/x", "d client_ip=192.0.2.7"} {
		r, err := ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, &r)
	}
	before, err := NewPart("p", rules[:3], nil)
	if err != nil {
		t.Fatal(err)
	}
	after, err := NewPart("p", rules, before)
	if err != nil || after.set != before.set {
		t.Errorf("an address built the patterns anew (%v)", err)
	}
	last, err := NewPart("p", []*Rule{rules[0], rules[1], rules[3]}, after)
	if err != nil || last.refuse.trie != after.refuse.trie || last.set.agent.index != after.set.agent.index {
		t.Errorf("a pattern built addresses or agents anew (%v)", err)
	}
	bad := Rule{Name: "bad"}
	bad.Fields = []Field{{Name: "client_ip", Patterns: []string{"x"}}}
	if p, err := NewPart("p", append(rules, &bad), after); err == nil || p != nil {
		t.Error("half a list was taken")
	}
}

// The scratches are taken by hand here: under the race detector a pool drops some of what is
// put back.
func TestSnapshotAllocatesNothing(t *testing.T) {
	s := benchSnapshot(t, 1000, 100, 20)
	q := typical()
	var held scratches
	for i, p := range s.Parts {
		if p.set != nil {
			held[i] = p.set.scratch()
		}
	}
	look := func() {
		if s.Banned(q, noon) != nil || s.Protects(q.Client) {
			t.Error("refused")
		}
		for _, p := range s.Parts {
			if p.refuse.find(Plain(q.Client), q, noon) != nil {
				t.Error("an address is refused")
			}
		}
		for _, of := range []func(*Set) *tier{agentTier, refuseTier, markTier} {
			if !s.first(of, q, noon, &held).None() {
				t.Error("a rule matches")
			}
		}
		for _, sc := range held {
			if sc != nil && !sc.reset() {
				t.Error("does not keep its room")
			}
		}
	}
	look()
	if n := testing.AllocsPerRun(100, look); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A rule in dry run that keeps taking too long is stopped, and the request has to wait for no more.
func TestBudget(t *testing.T) {
	set := newSet(t, "a path=/w/* mode=dry_run", "b path=/w/* mode=dry_run", "c path=/w/* mode=dry_run")
	now, pause := noon, time.Duration(0)
	var stopped []string
	calls := 0
	b := &Budget{
		Most:    time.Millisecond,
		Stopped: func(r *Rule) { stopped = append(stopped, r.Name) },
		Now: func() time.Time {
			if calls++; calls == 2 { // after the first rule
				now = now.Add(pause)
			}
			return now
		},
	}
	look := func(p time.Duration) int {
		calls, pause = 0, p
		return len(set.Dry(typical(), noon, b, nil))
	}
	if n := look(0); n != 3 {
		t.Fatalf("%d rules match", n)
	}
	if n := look(2 * time.Millisecond); n != 1 {
		t.Errorf("%d rules were looked at after one took too long", n)
	}
	for range slowCost { // once is forgiven
		look(0)
	}
	for range 3 {
		if len(stopped) > 0 {
			t.Fatalf("%q stopped too early", stopped)
		}
		look(2 * time.Millisecond)
	}
	if len(stopped) != 1 {
		t.Fatalf("stopped %q", stopped)
	}
	if n := look(0); n != 2 {
		t.Errorf("%d rules are left", n)
	}
}

func TestExplain(t *testing.T) {
	var rules []*Rule
	for _, text := range []string{"range client_ip=198.51.100.0/24", "bots agent=curl", "wiki path=/w/* method=GET", "try path=/w/* mode=dry_run"} {
		r, err := ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, &r)
	}
	p, err := NewPart("shared", rules, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &Snapshot{Mode: DryRun, Parts: []*Part{p}, Name: plainName}
	s.Protected, _ = ParsePrefixes([]string{"198.51.100.7"})
	s.Bans = BansOf(&Ban{Key: "name of 198.51.100.7", Bits: 32, Origin: "login", Until: noon.Add(time.Hour)})
	var got []string
	for _, step := range s.Explain(typical(), noon) {
		if step.Says {
			got = append(got, step.Name+": "+step.Why)
		}
	}
	want := []string{
		"mode: the list's mode is dry_run", "protected: 198.51.100.7 is protected",
		"bans: banned by login until " + formatTime(noon.Add(time.Hour)),
		`addresses: client_ip "198.51.100.0/24" matches "198.51.100.7"`,
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("lacks %q: %q", line, got)
		}
	}
	if rule := rules[2]; !strings.Contains(strings.Join(got, "\n"), "rules: path") {
		t.Errorf("%s is not among %q", rule, got)
	}
	other := typical()
	other.Path = "/x"
	if why := rules[2].Why(other); !strings.Contains(why, `path matches none of "/x"`) {
		t.Error(why)
	}
}

package admin

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/internal/observe"
)

// sample is ten requests: nine by readers, of whom one is signed in, and one, which stands for 91, by
// a crawler.
func sample() []observe.Seen {
	var all []observe.Seen
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range 9 {
		all = append(all, observe.Seen{
			Request: blocklist.Request{
				Source: blocklist.HTTP, Host: "example.com", Path: "/feed.xml", Method: "GET",
				Client: netip.MustParseAddr(fmt.Sprintf("203.0.113.%d", i)),
				Header: map[string][]string{"User-Agent": {"reader"}},
			},
			At: now.Add(time.Duration(i) * time.Second), Weight: 1, Status: 200,
		})
	}
	all[4].User = "ann"
	crawler := all[0]
	crawler.Request.Client, crawler.Request.Path = netip.MustParseAddr("198.51.100.7"), "/wiki/a"
	crawler.Request.Header = map[string][]string{"User-Agent": {"scrapy"}}
	crawler.Weight, crawler.Status, crawler.Cut = 91, 0, true
	return append(all, crawler)
}

func parse(t *testing.T, lines ...string) []blocklist.Rule {
	t.Helper()
	var rules []blocklist.Rule
	for _, line := range lines {
		r, err := blocklist.ParseRule(line)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	return rules
}

func TestReplay(t *testing.T) {
	for _, c := range []struct {
		rules   []string
		hit     Count
		share   float64
		tooMuch bool
	}{
		{[]string{"a user_agent=scrapy"}, Count{91, 1, 0}, 0.91, true},
		{[]string{"a path=/feed.xml"}, Count{9, 9, 1}, 0.09, false},
		// What a rule would do if it were enforced is asked, whatever it is now.
		{[]string{"a path=/feed.xml mode=off"}, Count{9, 9, 1}, 0.09, false},
		{[]string{"a path=/feed.xml action=mark expires=2020-01-01T00:00:00Z"}, Count{9, 9, 1}, 0.09, false},
		{[]string{"a client_ip=203.0.113.0/30", "b client_ip=203.0.113.3"}, Count{4, 4, 0}, 0.04, false},
		{[]string{"a scope=site:other.example path=*"}, Count{}, 0, false},
		{[]string{"a header:cookie=x*"}, Count{}, 0, true},
		{[]string{"a path=*"}, Count{100, 10, 1}, 1, true},
	} {
		p, err := Replay(parse(t, c.rules...), sample())
		if err != nil {
			t.Fatal(err)
		}
		if p.Hit != c.hit || p.Share != c.share {
			t.Errorf("%q would hit %+v, a share of %v, want %+v and %v", c.rules, p.Hit, p.Share, c.hit, c.share)
		}
		if got := p.tooMuch(0.2) != nil; got != c.tooMuch {
			t.Errorf("%q: too much is %t: %v", c.rules, got, p.tooMuch(0.2))
		}
		if want := (Count{100, 10, 1}); p.All != want || p.Cut != 1 {
			t.Errorf("all of the sample is %+v, %d cut", p.All, p.Cut)
		}
	}
	p, err := Replay(parse(t, "a path=/*"), sample())
	if err != nil {
		t.Fatal(err)
	}
	if want := []Part{{"/wiki/a", 91}, {"/feed.xml", 9}}; !slices.Equal(p.Paths, want) {
		t.Errorf("paths are %v", p.Paths)
	}
	if want := []Part{{"unknown", 91}, {"200", 9}}; !slices.Equal(p.Statuses, want) {
		t.Errorf("statuses are %v", p.Statuses)
	}
	if empty, err := Replay(parse(t, "a path=/*"), nil); err != nil || empty.Share != 0 || empty.tooMuch(0.2) != nil {
		t.Errorf("without a sample: %+v, %v", empty, err)
	}
}

func TestPercent(t *testing.T) {
	for share, want := range map[float64]string{0: "0 %", 0.004: "0.4 %", 0.2: "20 %", 1: "100 %"} {
		if got := Percent(share); got != want {
			t.Errorf("%v is written %q", share, got)
		}
	}
}

func TestVerdict(t *testing.T) {
	rules := parse(t, "a path=/a action=404", "m path=/a action=mark", "d path=/a mode=dry_run", "j handler=x dropped=dead_letter")
	says := func(name string, r *blocklist.Rule) blocklist.Step {
		return blocklist.Step{Name: name, Says: true, Rule: r}
	}
	mode := func(says bool) blocklist.Step { return blocklist.Step{Name: "mode", Says: says} }
	for name, c := range map[string]struct {
		mode   blocklist.Mode
		steps  []blocklist.Step
		source blocklist.Source
		want   Verdict
	}{
		"nothing": {0, []blocklist.Step{mode(false), {Name: "rules"}}, 0, Verdict{Outcome: Pass}},
		"off":     {blocklist.Off, []blocklist.Step{mode(true), says("rules", &rules[0])}, 0, Verdict{Outcome: Pass, By: "mode"}},
		"allowed": {0, []blocklist.Step{mode(false), says("allow", nil), says("rules", &rules[0])}, 0, Verdict{Outcome: Pass, By: "allow"}},
		"refused": {0, []blocklist.Step{mode(false), says("rules", &rules[0]), says("marks", &rules[1]), says("dry_run", &rules[2])}, 0, Verdict{Outcome: Refuse, By: "rules", Rule: "a", Action: "404"}},
		"marked":  {0, []blocklist.Step{mode(false), says("marks", &rules[1]), says("dry_run", &rules[2])}, 0, Verdict{Outcome: Marked, By: "marks", Rule: "m", Action: "mark", DryRun: []string{"d"}}},
		"trial":   {blocklist.DryRun, []blocklist.Step{mode(true), says("rules", &rules[0])}, 0, Verdict{Outcome: Pass, DryRun: []string{"a"}}},
		"job":     {0, []blocklist.Step{mode(false), says("rules", &rules[3])}, blocklist.Job, Verdict{Outcome: Refuse, By: "rules", Rule: "j", Dropped: "dead_letter"}},
	} {
		got := verdictOf(c.mode, c.steps, c.source)
		if len(got.Steps) != len(c.steps) {
			t.Errorf("%s: %d steps are told, of %d", name, len(got.Steps), len(c.steps))
		}
		if got.Outcome != c.want.Outcome || got.By != c.want.By || got.Rule != c.want.Rule || got.Action != c.want.Action ||
			got.Dropped != c.want.Dropped || !slices.Equal(got.DryRun, c.want.DryRun) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

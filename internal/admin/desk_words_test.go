package admin

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/internal/config"
)

// A rule's words are those of the Caddyfile, durations included; and an address alone is a rule.
func TestWordsOfARule(t *testing.T) {
	d, ctx := desk(t), t.Context()
	done := must[Done](t)
	made := done(d.Add(ctx, Add{Order: ann, Lines: []string{"a path=/a expires=1h"}}))
	if left := time.Until(*made.Ends); left < 59*time.Minute || left > time.Hour {
		t.Errorf("ends in %s, want 1h", left)
	}
	if made := done(d.Add(ctx, Add{Order: ann, Lines: []string{"b path=/b expires=never"}})); made.Ends != nil {
		t.Errorf("what never ends ends at %s", made.Ends)
	}
	done(d.Add(ctx, Add{Order: ann, Lines: []string{"203.0.113.7", "2001:db8::/48"}}))
	if l := must[List](t)(d.List(ctx, Narrow{Client: "203.0.113.7"})); !slices.Equal(names(l), []string{"203.0.113.7"}) {
		t.Errorf("the address is in %q", names(l))
	}
	for _, c := range []struct {
		what Add
		want string
	}{
		{Add{Lines: []string{"x path=/a"}, Expires: "2020-01-01T00:00:00Z"}, "expires: must be in the future"},
		{Add{Lines: []string{"x path=/a expires=2020-01-01T00:00:00Z"}}, "expires: must be in the future"},
		{Add{Rules: []config.Rule{{Name: "x", Path: []string{"/a"}, Expires: "2020-01-01T00:00:00Z"}}}, "expires: must be in the future"},
		{Add{Lines: []string{"x path=/a"}, Expires: "-1h"}, "expires: must be positive"},
		{Add{Lines: []string{"path=/a method=POST"}}, `name: must come first, got "path=/a"`},
	} {
		c.what.Order = ann
		if _, err := d.Add(ctx, c.what); !errors.Is(err, blocklist.ErrRefused) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "expires: expires") {
			t.Errorf("%+v: got %v, want %q", c.what, err, c.want)
		}
	}
	if _, err := d.Ban(ctx, BanKey{Order: ann, Client: "203.0.113.7", Until: "2020-01-01T00:00:00Z"}); err == nil || !strings.Contains(err.Error(), "until: must be in the future") {
		t.Errorf("a ban that is over: %v", err)
	}
}

// What a configuration is warned of a change is warned of too.
func TestWarningsOfRules(t *testing.T) {
	d, ctx := desk(t), t.Context()
	done := must[Done](t)
	for line, want := range map[string]string{
		"a agent=Chrome":              `rule "a": agent: "Chrome": stands in the user agents of browsers`,
		"a path=/feed?x=1":            `a ? stands for itself`,
		"a host=https://example.com/": `no host holds a slash`,
		"a client_ip=10.0.0.0/8":      `refuses private or loopback addresses`,
		"a path=/wp-*":                ``,
	} {
		for _, made := range []Done{
			done(d.Add(ctx, Add{Order: ann, Lines: []string{line}})), done(d.Import(ctx, Import{Order: ann, Text: "rule " + line})),
		} {
			if got := strings.Join(made.Warnings, "\n"); (want == "") != (got == "") || !strings.Contains(got, want) {
				t.Errorf("%s: warnings %q, want %q", line, got, want)
			}
		}
	}
}

// A ban that takes the place of another says so, and a mode of rules is told.
func TestWhatIsReplaced(t *testing.T) {
	d, ctx := desk(t), t.Context()
	done := must[Done](t)
	ban := func(until string) Done {
		return done(d.Ban(ctx, BanKey{Order: ann, Client: "203.0.113.7", Until: until}))
	}
	for _, c := range []struct {
		until              string
		rebanned, warnings int
	}{{"1h", 0, 0}, {"2h", 1, 0}, {"10m", 1, 1}} {
		if made := ban(c.until); made.Rebanned != c.rebanned || len(made.Warnings) != c.warnings {
			t.Errorf("%s: got %+v", c.until, made)
		}
	}
	done(d.Add(ctx, Add{Order: ann, Lines: []string{"a path=/a"}}))
	if made := done(d.SetMode(ctx, SetMode{Order: ann, Mode: "dry_run", Names: []string{"a"}})); made.RuleMode != "dry_run" || made.Mode != "" {
		t.Errorf("got %+v", made)
	}
}

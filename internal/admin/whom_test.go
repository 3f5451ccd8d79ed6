package admin

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/internal/config"
)

// zoned is a board that knows that there are no zones.
type zoned struct{ Direct }

func (zoned) Zone(name string) (config.KnownZone, bool, error) {
	return config.KnownZone{}, true, noZone(name, []string{"login"})
}

func (zoned) Applied() bool { return false }

func TestWhomABanIsFor(t *testing.T) {
	d, ctx := desk(t), t.Context()
	done := must[Done](t)
	for _, c := range []struct{ client, scope, want string }{
		{"203.0.113.9", "", "203.0.113.9"},
		{"2001:db8:5::1", "", "2001:db8:5::/64"},
		{"2001:db8:5::1", "site:example.com", "2001:db8:5::/64"},
		{"2001:db8:5::1/128", "", "2001:db8:5::1"},
		{"::ffff:203.0.113.8", "", "203.0.113.8"},
	} {
		made := done(d.Ban(ctx, BanKey{Order: ann, Client: c.client, Scope: c.scope}))
		if made.Whom != c.want || len(made.Warnings) > 0 {
			t.Errorf("%s: banned %q, %q, want %q", c.client, made.Whom, made.Warnings, c.want)
		}
	}
	v := must[Verdict](t)(d.Test(ctx, config.Ask{URL: "/", ClientIP: "2001:db8:5::2"}))
	if v.Outcome != Refuse {
		t.Errorf("a neighbour in the banned network: %+v", v)
	}
	l := must[List](t)(d.List(ctx, Narrow{Bans: 10, Client: "203.0.113.9"}))
	if len(l.Bans) != 1 || l.Bans[0].Client != "203.0.113.9" {
		t.Errorf("the list names %+v", l.Bans)
	}
	if made := done(d.Ban(ctx, BanKey{Order: ann, Client: "203.0.113.9", Scope: "zone:login"})); len(made.Warnings) != 1 || !strings.Contains(made.Warnings[0], "not known here") {
		t.Errorf("past Caddy: warnings %q", made.Warnings)
	}
	// Past Caddy nobody knows which requests are the zone's.
	v = must[Verdict](t)(d.Test(ctx, config.Ask{URL: "/login", ClientIP: "203.0.113.9"}))
	if v.By != "bans" {
		t.Errorf("got %+v", v)
	}
	done(d.Lift(ctx, Lift{Order: ann, Client: "203.0.113.9", Scope: "all"}))
	v = must[Verdict](t)(d.Test(ctx, config.Ask{URL: "/login", ClientIP: "203.0.113.9"}))
	if v.Outcome != Pass || len(v.Warnings) != 1 || !strings.Contains(v.Warnings[0], `banned from zone "login"`) {
		t.Errorf("got %+v", v)
	}
}

func TestWhomNoBanIsFor(t *testing.T) {
	d, ctx := desk(t), t.Context()
	known := Desk{zoned{d.Board.(Direct)}}
	for _, c := range []struct {
		ban  BanKey
		want string
	}{
		{BanKey{Client: "0.0.0.0/0"}, "client: must be a part of all addresses"},
		{BanKey{Client: "::/0", Scope: "zone:login"}, "client: must be a part of all addresses"},
		{BanKey{Key: "4711"}, "key: belongs to a zone"},
		{BanKey{Client: "203.0.113.9", Scope: "zone:nonexistent"}, `scope: no zone "nonexistent" (known here: login)`},
		{BanKey{Key: "4711", Scope: "zone:nonexistent"}, `scope: no zone "nonexistent"`},
		{BanKey{Client: "203.0.113.9", Scope: "example.com"}, `did you mean "site:example.com"?`},
	} {
		c.ban.Order = ann
		if _, err := known.Ban(ctx, c.ban); !errors.Is(err, blocklist.ErrRefused) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.ban, err, c.want)
		}
	}
	// A ban from half the Internet needs force, and is named as it was given.
	_, err := d.Ban(ctx, BanKey{Order: ann, Client: "128.0.0.0/1"})
	if !errors.Is(err, ErrDanger) || !strings.Contains(err.Error(), `"128.0.0.0/1": is a large part`) {
		t.Errorf("got %v", err)
	}
}

// Where nothing applies the list, whoever adds, bans or tests is told.
func TestNothingAppliesTheList(t *testing.T) {
	d, ctx := Desk{zoned{desk(t).Board.(Direct)}}, t.Context()
	added, err := d.Add(ctx, Add{Order: ann, Lines: []string{"a path=/a"}})
	if err != nil || len(added.Warnings) != 1 || added.Warnings[0] != notApplied {
		t.Errorf("add: %+v, %v", added, err)
	}
	banned, err := d.Ban(ctx, BanKey{Order: ann, Client: "203.0.113.9"})
	if err != nil || len(banned.Warnings) != 1 || banned.Warnings[0] != notApplied {
		t.Errorf("ban: %+v, %v", banned, err)
	}
	v, err := d.Test(ctx, config.Ask{URL: "/a", ClientIP: netip.MustParseAddr("203.0.113.7").String()})
	if err != nil || v.Outcome != Refuse || len(v.Warnings) != 1 || v.Warnings[0] != notApplied {
		t.Errorf("test: %+v, %v", v, err)
	}
	v, err = d.Test(ctx, config.Ask{URL: "/b", ClientIP: "203.0.113.7"})
	if err != nil || v.Outcome != Pass || len(v.Warnings) != 0 {
		t.Errorf("what passes anyway: %+v, %v", v, err)
	}
}

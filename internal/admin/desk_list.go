package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/internal/config"
)

// List shows the list, or a part of it.
func (d Desk) List(ctx context.Context, n Narrow) (List, error) {
	content, err := d.Content(ctx)
	if err != nil {
		return List{}, err
	}
	content = content.Sweep(d.Now())
	l := List{Version: content.Version, Mode: content.Mode.String(), Rules: []Rule{}, BansTotal: content.Bans.Len()}
	about := func(*blocklist.Rule) bool { return true }
	named := func(*blocklist.Ban) bool { return true }
	if n.Client != "" {
		addr, err := netip.ParseAddr(n.Client)
		if err != nil {
			return List{}, blocklist.Refuse(fmt.Errorf("client: must be an address, got %q", n.Client))
		}
		addr = blocklist.Plain(addr)
		names, err := d.names(ctx, content, addr.String(), addr.BitLen())
		if err != nil {
			return List{}, err
		}
		about = func(r *blocklist.Rule) bool { return holds(r, addr) }
		named = func(b *blocklist.Ban) bool { return names[b.Key] }
	}
	for _, r := range content.Rules {
		if about(r) {
			l.Rules = append(l.Rules, Rule{config.RuleOf(r), r.String()})
		}
	}
	if n.Bans > 0 {
		l.Bans = latest(content.Bans, named, n.Bans, d)
	}
	d.Describe(ctx, &l)
	return l, nil
}

// Export writes the list down, as lines that Import reads.
func (d Desk) Export(ctx context.Context) (string, error) {
	content, err := d.Content(ctx)
	if err != nil {
		return "", err
	}
	content = content.Sweep(d.Now())
	var b strings.Builder
	fmt.Fprintf(&b, "# The shared block list at version %d, %s.\n", content.Version, d.Now().UTC().Format(time.RFC3339))
	if content.Bans.Len() > 0 {
		b.WriteString(d.named(ctx))
	}
	if content.Mode == blocklist.Enforce {
		fmt.Fprintf(&b, "mode %s\n", content.Mode)
	}
	err = content.AppendTo(&b)
	return b.String(), err
}

// holds reports whether a rule names the address.
func holds(r *blocklist.Rule, addr netip.Addr) bool {
	for _, f := range r.Fields {
		if f.Name != "client_ip" {
			continue
		}
		for _, text := range f.Patterns {
			if p, err := blocklist.ParsePrefix(text); err == nil && p.Contains(addr) {
				return true
			}
		}
	}
	return false
}

// latest returns those bans that began last and are not over.
func latest(bans blocklist.Bans, named func(*blocklist.Ban) bool, most int, d Desk) []Ban {
	var all []*blocklist.Ban
	now := d.Now()
	for b := range bans.All() {
		if named(b) && !b.Over(now) {
			all = append(all, b)
		}
	}
	slices.SortFunc(all, func(a, b *blocklist.Ban) int {
		return cmp.Or(b.Since.Compare(a.Since), cmp.Compare(a.ID().String(), b.ID().String()))
	})
	shown := make([]Ban, 0, min(len(all), most))
	for _, b := range all[:min(len(all), most)] {
		shown = append(shown, banOf(b))
	}
	return shown
}

func banOf(b *blocklist.Ban) Ban {
	e := &b.Evidence
	return Ban{
		ID: b.ID().String(), Key: b.Key, Client: e.Client, Scope: b.Scope.String(), Origin: b.Origin,
		Since: b.Since, Until: b.Until, Count: b.Count, Note: b.Note,
		Reason: e.Reason, Host: e.Host, Path: e.Path, UserAgent: e.UserAgent, Status: e.Status, Hits: e.Hits,
	}
}

func recordOf(r *blocklist.Record) Record {
	return Record{
		Version: r.Version, At: r.Change.At, By: r.Change.By, Why: r.Change.Why, Undid: r.Change.Undo,
		Did: lines(&r.Change), Undo: lines(&r.Undo),
	}
}

// lines writes what a change does, a line each.
func lines(c *blocklist.Change) []string {
	all := []string{}
	for _, op := range c.Ops() {
		all = append(all, op.Line())
	}
	return all
}

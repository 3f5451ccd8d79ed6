package redislist

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/limiter"
)

// lost reports whether the server has lost the list, and perhaps begun another since. A list that
// has come further than ours was given back by somebody else.
func (w *watch) lost(s state) bool {
	if !w.known || w.content.Version == 0 || s.version > w.content.Version {
		return false
	}
	return s.version == 0 || w.content.Born != "" && s.born != w.content.Born
}

// restore gives the list back to a server that lost it, unless somebody else was first. What was
// made there since then, which is there, stays. It reports false if there is nothing to give.
func (w *watch) restore(ctx context.Context, there blocklist.Content, s state) (given bool, err error) {
	ours := w.content.Sweep(w.now())
	g := gift{wanted: strconv.FormatUint(s.version, 10), to: strconv.FormatUint(ours.Version+1, 10)}
	g.change = blocklist.Change{By: "restore", Why: "the server had lost the list", At: w.now()}
	if !s.moded && ours.Mode != blocklist.Enforce {
		g.change.Mode = &ours.Mode
	}
	for _, r := range ours.Rules {
		if there.Text("rule", r.Name) != "" {
			continue
		}
		if g.change.Put = append(g.change.Put, *r); len(g.change.Put) == blocklist.MaxChange {
			if err := w.give(ctx, &g); err != nil {
				return false, err
			}
		}
	}
	if len(g.change.Put) > 0 {
		if err := w.give(ctx, &g); err != nil {
			return false, err
		}
	}
	for b := range ours.Bans.All() {
		if there.Bans.Get(b.ID()) != nil {
			continue
		}
		if g.change.Ban = append(g.change.Ban, *b); len(g.change.Ban) == blocklist.MaxChange {
			if err := w.give(ctx, &g); err != nil {
				return false, err
			}
		}
	}
	if len(g.change.Ban) > 0 || g.change.Mode != nil {
		if err := w.give(ctx, &g); err != nil {
			return false, err
		}
	}
	if g.to != "" {
		return false, nil
	}
	if w.restored != nil {
		w.restored(ours)
	}
	return true, w.read(ctx)
}

// A gift is the next part of what is given back. The first asks that the list has the version
// wanted, and leads to another; then both are empty.
type gift struct {
	change     blocklist.Change
	wanted, to string
}

// give makes one part of what is restored.
func (w *watch) give(ctx context.Context, g *gift) error {
	c := &g.change
	c.Auto = len(c.Put) == 0 && c.Mode == nil
	_, err := w.change(ctx, *c, g.wanted, g.to)
	g.wanted, g.to = "", ""
	c.Put, c.Ban, c.Mode = nil, nil, nil
	if errors.Is(err, errAgain) {
		return fmt.Errorf("%w: redis: %w", limiter.ErrUnavailable, err) // and the next session reads what is there
	}
	return err
}

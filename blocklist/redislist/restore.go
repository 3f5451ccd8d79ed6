package redislist

import (
	"context"

	"github.com/weirhq/caddy-weir/blocklist"
)

// lost reports whether the server has lost the list that was followed here, or a part of it, and perhaps begun another
// since.
func (w *watch) lost(s state) bool {
	if !w.known || w.content.Version == 0 {
		return false
	}
	return s.version == 0 || w.content.Born != "" && !isIn(s.born, w.content.Born, w.content.Version)
}

// restore gives the list back to a server that lost it. What is there stays as it is: it was made since then. That all
// was given is said last, in the list's line. So one who is interrupted begins again, and two who do it at once
// give the same, until either is done: then the other is told to look again.
func (w *watch) restore(ctx context.Context, there blocklist.Content, s state) error {
	ours := w.content.Sweep(w.now())
	r := restoring{w: w, gift: gift{of: s.born, line: s.born}}
	if s.born == "" {
		r.gift.line = newLine()
	}
	if !s.moded && ours.Mode != blocklist.Enforce {
		r.part.Mode = &ours.Mode
	}
	has := make(map[string]bool, len(there.Rules))
	for _, rule := range there.Rules {
		has[rule.Name] = true
	}
	for _, rule := range ours.Rules {
		if !has[rule.Name] {
			r.part.Put = append(r.part.Put, *rule)
			r.giveFull(ctx)
		}
	}
	r.give(ctx)
	for ban := range ours.Bans.All() {
		if there.Bans.Get(ban.ID()) == nil {
			r.part.Ban = append(r.part.Ban, *ban)
			r.giveFull(ctx)
		}
	}
	r.give(ctx)
	r.finish(ctx, ours)
	if r.err == nil && w.restored != nil {
		w.restored(ours)
	}
	return r.err
}

// restoring is what remains to be given. After an error it gives nothing more.
type restoring struct {
	w    *watch
	gift gift
	part blocklist.Change
	err  error
}

// A gift is a part of what is given back: to the list with the line of, which then has another. The last one leads to
// a version that is not less than least.
type gift struct {
	of, line string
	least    uint64
}

func (r *restoring) giveFull(ctx context.Context) {
	if len(r.part.Put)+len(r.part.Ban) >= blocklist.MaxChange {
		r.give(ctx)
	}
}

// give gives the part that was gathered, if there is one.
func (r *restoring) give(ctx context.Context) {
	if len(r.part.Put)+len(r.part.Ban) > 0 || r.part.Mode != nil {
		r.part.Auto = len(r.part.Put) == 0 && r.part.Mode == nil
		r.send(ctx)
	}
}

// finish says that all of a list was given. It is a version after all that anybody knows.
func (r *restoring) finish(ctx context.Context, ours blocklist.Content) {
	r.gift.line = withGiven(r.gift.line, ours.Born, ours.Version)
	r.gift.least = ours.Version + 1
	r.part.Auto = true
	r.send(ctx)
}

func (r *restoring) send(ctx context.Context) {
	if r.err == nil {
		r.part.By, r.part.Why, r.part.At = "restore", "the server had lost the list", r.w.now()
		_, r.err = r.w.change(ctx, r.part, terms{gift: &r.gift})
	}
	r.part, r.gift.of = blocklist.Change{}, r.gift.line
}

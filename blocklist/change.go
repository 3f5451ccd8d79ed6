package blocklist

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Bounds of the shared list.
const (
	// MaxBans is the most bans there are at once; what more come push those out that end
	// first.
	MaxBans = 1_000_000
	// MaxChange is the most rules and bans that one change puts or removes.
	MaxChange = 10_000
	// MaxText is the longest text form of a rule, in bytes.
	MaxText = 4 << 20
	// DefaultLife is how long a rule lasts that says nothing of its end.
	DefaultLife = 24 * time.Hour
	// MaxTrail is how many changes keepers remember at most, and MaxTrailBytes how many bytes
	// of them. The last change is remembered however long it is.
	MaxTrail      = 1000
	MaxTrailBytes = 4 << 20
)

// Never is the end of a rule that is to last, for changes: there the zero time stands for
// [DefaultLife].
var Never = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// Content is the shared list at one version. It is immutable: changes make new ones.
type Content struct {
	// Version counts the changes so far.
	Version uint64
	// Born tells a list from another that was begun in its place, when the keeper had lost
	// it; empty where that cannot be told. It is a word of the keeper's, without blanks.
	Born string
	// Mode of the whole list. Default: Enforce.
	Mode Mode
	// Rules, in the order in which they were created.
	Rules []*Rule
	// Bans, those that are over included until somebody sweeps them out.
	Bans Bans
}

// A Change leads from one version of the shared list to the next.
type Change struct {
	// By is who makes the change: a person, or a zone. Required.
	By string
	// Why is for people.
	Why string
	// At is when. Default: now.
	At time.Time
	// Put adds rules, or replaces those of the same names.
	Put []Rule
	// Remove takes out rules by their names. One that there is not refuses the change.
	Remove []string
	// Mode, if not nil, is the list's new mode.
	Mode *Mode
	// Ban adds bans, or replaces those of the same IDs.
	Ban []Ban
	// Lift takes out bans. One that there is not refuses the change.
	Lift []BanID
	// Undo, if not 0, takes back what the change to this version did, as far as nothing of it
	// was changed again: that refuses the change. It goes with nothing else of the above.
	Undo uint64
	// Auto is set for what zones do by themselves. It leaves no record, so that a flood of
	// bans pushes nobody's changes out of the trail; and a ban that it puts never ends earlier than
	// the one it replaces, so that two nodes which ban at once agree.
	Auto bool
}

// A Record is a change that was made.
type Record struct {
	// Version to which the change led.
	Version uint64
	// Change as it was made.
	Change Change
	// Undo is what takes the change back.
	Undo Change
}

// Prepare fills in what the change leaves open: when it is made, who wrote its rules and
// when, and the end of rules that say nothing of it, which is [DefaultLife] from now. The
// caller's slices stay as they are. An error wraps [ErrRefused] and joins everything that is wrong.
func (c *Change) Prepare(now time.Time) error {
	now = now.UTC().Round(0)
	if c.At.IsZero() {
		c.At = now
	}
	c.At = c.At.UTC().Round(0)
	c.Put, c.Ban = slices.Clone(c.Put), slices.Clone(c.Ban)
	for i := range c.Put {
		r := &c.Put[i]
		r.Author = cmp.Or(r.Author, c.By)
		if r.Created.IsZero() {
			r.Created = now
		}
		if r.Expires.IsZero() {
			r.Expires = now.Add(DefaultLife)
		}
		r.Created, r.Expires = r.Created.UTC().Round(0), r.Expires.UTC().Round(0)
	}
	for i := range c.Ban {
		b := &c.Ban[i]
		if b.Since.IsZero() {
			b.Since = now
		}
		for _, at := range []*time.Time{&b.Since, &b.Until, &b.Forget, &b.Evidence.At} {
			*at = at.UTC().Round(0)
		}
		b.Evidence.Fit()
	}
	return Refuse(c.check())
}

// size is how many things the change puts or takes out.
func (c *Change) size() int { return len(c.Put) + len(c.Remove) + len(c.Ban) + len(c.Lift) }

func (c *Change) check() error {
	var problems []error
	problem := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if checkText(c.By) != nil || len(c.By) > MaxName {
		problem("by: must be 1 to %d bytes of printable text", MaxName)
	}
	if c.Why != "" && checkText(c.Why) != nil || len(c.Why) > MaxPattern {
		problem("why: must be one line of printable text, at most %d bytes", MaxPattern)
	}
	if err := checkTime(c.At); err != nil {
		problem("at: %w", err)
	}
	switch n := c.size(); {
	case c.Undo != 0 && (n > 0 || c.Mode != nil):
		problem("undo: goes with nothing else")
	case c.Undo == 0 && n == 0 && c.Mode == nil:
		problem("changes nothing")
	case n > MaxChange:
		problem("must change at most %d rules and bans at once, got %d", MaxChange, n)
	}
	if c.Auto && (c.Undo != 0 || c.Mode != nil || len(c.Put)+len(c.Remove) > 0) {
		problem("auto: is for bans alone")
	}
	if c.Mode != nil && int(*c.Mode) >= len(modes) {
		problem("mode: no mode %d", *c.Mode)
	}
	names := make(map[string]bool)
	for i := range c.Put {
		r := &c.Put[i]
		if err := r.CheckLoose(); err != nil {
			problems = append(problems, err)
		} else if n := len(r.String()); n > MaxText {
			problem("rule %q: must be at most %d bytes as a text, got %d", r.Name, MaxText, n)
		}
		if names[r.Name] {
			problem("rule %q: is put twice", r.Name)
		}
		names[r.Name] = true
	}
	for _, name := range c.Remove {
		if names[name] {
			problem("rule %q: is put and removed, or removed twice", name)
		}
		names[name] = true
	}
	problems = append(problems, c.checkBans())
	return errors.Join(problems...)
}

func (c *Change) checkBans() error {
	var problems []error
	ids := make(map[BanID]bool)
	for i := range c.Ban {
		b := &c.Ban[i]
		problems = append(problems, b.Check())
		if ids[b.ID()] {
			problems = append(problems, fmt.Errorf("ban %q: is put twice", b.Key))
		}
		ids[b.ID()] = true
	}
	for _, id := range c.Lift {
		if ids[id] {
			problems = append(problems, fmt.Errorf("ban %q: is put and lifted, or lifted twice", id.Key))
		}
		ids[id] = true
	}
	return errors.Join(problems...)
}

// Apply makes a prepared change that is no undo, and says what takes it back. The content
// stays as it is. An error wraps [ErrRefused].
func (c Content) Apply(ch Change) (Content, Record, error) {
	rec := Record{Version: c.Version + 1, Change: ch}
	rules := make(map[string]*Rule, len(c.Rules))
	for _, r := range c.Rules {
		rules[r.Name] = r
	}
	var problems []error
	undoRule := func(name string) {
		if old := rules[name]; old != nil {
			rec.Undo.Put = append(rec.Undo.Put, *old)
		} else {
			rec.Undo.Remove = append(rec.Undo.Remove, name)
		}
	}
	for _, name := range ch.Remove {
		if rules[name] == nil {
			problems = append(problems, noRule(name))
			continue
		}
		undoRule(name)
		delete(rules, name)
	}
	for i := range ch.Put {
		undoRule(ch.Put[i].Name)
		rules[ch.Put[i].Name] = &ch.Put[i]
	}
	if len(rules) > MaxRules {
		problems = append(problems, tooManyRules(len(rules)))
	}
	for _, id := range ch.Lift {
		old := c.Bans.Get(id)
		if old == nil {
			problems = append(problems, noBan(id))
			continue
		}
		rec.Undo.Ban = append(rec.Undo.Ban, *old)
	}
	for i := range ch.Ban {
		if ch.Auto {
			break // leaves no record
		}
		if old := c.Bans.Get(ch.Ban[i].ID()); old != nil {
			rec.Undo.Ban = append(rec.Undo.Ban, *old)
		} else {
			rec.Undo.Lift = append(rec.Undo.Lift, ch.Ban[i].ID())
		}
	}
	if ch.Mode != nil {
		mode := c.Mode
		rec.Undo.Mode = &mode
	}
	if len(problems) > 0 {
		return c, Record{}, Refuse(errors.Join(problems...))
	}
	return c.Patch(ch, rec.Version), rec, nil
}

func noRule(name string) error { return fmt.Errorf("rule %q: there is no such rule", name) }
func noBan(id BanID) error {
	return fmt.Errorf("ban %q: there is no such ban of %s by %q", id.Key, id.Scope, id.Origin)
}

func tooManyRules(n int) error { return fmt.Errorf("rules: must be at most %d, got %d", MaxRules, n) }

// Patch returns the content after a change, at the version it led to, without asking whether
// it fits: for those who follow a list that somebody else keeps. What it removes and is not there
// is no matter.
func (c Content) Patch(ch Change, version uint64) Content {
	next := c
	next.Version = version
	if ch.Mode != nil {
		next.Mode = *ch.Mode
	}
	if len(ch.Put)+len(ch.Remove) > 0 {
		gone := make(map[string]bool)
		for _, name := range ch.Remove {
			gone[name] = true
		}
		for i := range ch.Put {
			gone[ch.Put[i].Name] = true
		}
		next.Rules = slices.DeleteFunc(slices.Clone(c.Rules), func(r *Rule) bool { return gone[r.Name] })
		for i := range ch.Put {
			next.Rules = append(next.Rules, &ch.Put[i])
		}
		SortRules(next.Rules)
	}
	if len(ch.Ban)+len(ch.Lift) > 0 {
		e := c.Bans.edit()
		for _, id := range ch.Lift {
			e.lift(id)
		}
		for i := range ch.Ban {
			b := &ch.Ban[i]
			if old := c.Bans.Get(b.ID()); ch.Auto && old != nil && old.Until.After(b.Until) {
				continue
			}
			e.put(b)
		}
		next.Bans = e.next
		if next.Bans.Len() > MaxBans {
			next.Bans = next.Bans.Sweep(ch.At).bound(MaxBans - MaxBans/100)
		}
	}
	return next
}

// SortRules brings rules to the order of a list: that in which they were created, those of
// one instant by name.
func SortRules(rules []*Rule) {
	slices.SortFunc(rules, func(a, b *Rule) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
}

// Sweep returns the content without rules and bans that are over. Its version stays: all that
// keep the list know by themselves what is over.
func (c Content) Sweep(now time.Time) Content {
	if slices.ContainsFunc(c.Rules, func(r *Rule) bool { return r.Expired(now) }) {
		c.Rules = slices.DeleteFunc(slices.Clone(c.Rules), func(r *Rule) bool { return r.Expired(now) })
	}
	c.Bans = c.Bans.Sweep(now)
	return c
}

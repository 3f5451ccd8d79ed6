package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/internal/config"
	"github.com/weirhq/caddy-weir/internal/observe"
)

// A Board is where a list is kept, as a [Desk] needs it.
type Board interface {
	// Content is the list as it is.
	Content(ctx context.Context) (blocklist.Content, error)
	// Apply makes a change. If it is dangerous and force is not set, the dangers are
	// returned, and nothing is changed; they are returned as well if it is set.
	Apply(ctx context.Context, c blocklist.Change, caller netip.Addr, force bool) (version uint64, dangers []blocklist.Danger, err error)
	// Trail returns the last n changes, the latest first.
	Trail(ctx context.Context, n int) ([]blocklist.Record, error)
	// Name returns what a ban calls a key, or the text of a network.
	Name(ctx context.Context, key string) (string, error)
	// Explain looks at all that could decide about a request, in the mode of the list.
	Explain(ctx context.Context, r *blocklist.Request) (blocklist.Mode, []blocklist.Step, error)
	// Describe adds to a list what is known beyond its content.
	Describe(ctx context.Context, l *List)
	// Sample returns the recent requests; false if the board has seen none, for want of
	// a server.
	Sample() ([]observe.Seen, bool)
	// Applied reports whether anything here applies the list to what passes it; true where
	// that is not known.
	Applied() bool
	// Network returns the network that stands for a client of whom only the address is given.
	Network(client netip.Addr) netip.Prefix
	// Zone returns a zone of rate_limit; known is false where no zones are known. The error says that
	// there is none of that name.
	Zone(name string) (zone config.KnownZone, known bool, err error)
	// Now is the board's idea of the time.
	Now() time.Time
}

// A Desk does what the control plane is asked and told, on a [Board].
type Desk struct{ Board }

// ErrDanger is wrapped by errors that say that a change is dangerous, and was not made.
var ErrDanger = errors.New("with force it is done all the same")

// ErrAbsent is wrapped by errors that say that what a question is about is not known here.
var ErrAbsent = errors.New("not known here")

// Add puts rules.
func (d Desk) Add(ctx context.Context, a Add) (Done, error) {
	rules, err := d.rules(&a)
	if err != nil {
		return Done{}, err
	}
	if a.MaxShare > 0 && !a.Force {
		p, err := d.replay(rules)
		if err != nil {
			return Done{}, err
		}
		if err := p.tooMuch(a.MaxShare); err != nil {
			return Done{}, fmt.Errorf("%w: %w", err, ErrDanger)
		}
	}
	return d.linted(ctx, &a.Order, blocklist.Change{Put: rules})
}

// linted makes a change, with a warning of what is allowed in its rules and seldom meant.
func (d Desk) linted(ctx context.Context, o *Order, c blocklist.Change) (Done, error) {
	done, err := d.apply(ctx, o, c)
	if err != nil {
		return done, err
	}
	found := config.LintRules(c.Put)
	const most = 20
	if n := len(found); n > most {
		found = append(found[:most:most], fmt.Sprintf("and %d more such warnings", n-most))
	}
	done.Warnings = append(done.Warnings, found...)
	return done, nil
}

// Preview says what rules would have hit.
func (d Desk) Preview(_ context.Context, a Add) (Preview, error) {
	rules, err := d.rules(&a)
	if err != nil {
		return Preview{}, err
	}
	return d.replay(rules)
}

func (d Desk) replay(rules []blocklist.Rule) (Preview, error) {
	sample, known := d.Sample()
	if !known {
		return Preview{}, fmt.Errorf("preview: only a running Caddy has seen requests: %w", ErrAbsent)
	}
	p, err := Replay(rules, sample)
	return p, blocklist.Refuse(err)
}

// rules reads the rules of an Add.
func (d Desk) rules(a *Add) ([]blocklist.Rule, error) {
	now := d.Now()
	ends, err := end(a.Expires, now)
	if err != nil {
		return nil, blocklist.Refuse(fmt.Errorf("expires: %w", err))
	}
	var rules []blocklist.Rule
	var problems []error
	for i := range a.Rules {
		r, err := a.Rules[i].Rule(now)
		if err == nil && r.Expired(now) {
			err = fmt.Errorf("expires: must be in the future, got %s", a.Rules[i].Expires)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("rule %q: %w", a.Rules[i].Name, err))
		}
		rules = append(rules, r)
	}
	for i, line := range a.Lines {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if _, err := blocklist.ParsePrefix(line); err == nil {
			line += " client_ip=" + line // an address alone is a rule of its own
		}
		r, err := blocklist.ParseRuleEnding(line, func(text string) (time.Time, error) { return end(text, now) })
		if err != nil && len(a.Lines) > 1 {
			err = fmt.Errorf("line %d: %w", i+1, err)
		}
		problems = append(problems, err)
		rules = append(rules, r)
	}
	if len(rules) == 0 && len(problems) == 0 {
		problems = append(problems, errors.New("rules: there is none"))
	}
	for i := range rules {
		if rules[i].Expires.IsZero() {
			rules[i].Expires = ends
		}
	}
	return rules, blocklist.Refuse(errors.Join(problems...))
}

// end reads the end of a rule or a ban, which has to come; zero if there is none.
func end(text string, now time.Time) (time.Time, error) {
	at, err := config.ParseEnd(text, now)
	if err == nil && !at.IsZero() && !now.Before(at) {
		err = fmt.Errorf("must be in the future, got %s", text)
	}
	return at, err
}

// Remove takes out rules.
func (d Desk) Remove(ctx context.Context, rm Remove) (Done, error) {
	if len(rm.Names) == 0 {
		return Done{}, blocklist.Refuse(errors.New("names: there is none"))
	}
	return d.apply(ctx, &rm.Order, blocklist.Change{Remove: rm.Names})
}

// SetMode sets the mode of the list or of rules.
func (d Desk) SetMode(ctx context.Context, m SetMode) (Done, error) {
	mode, err := blocklist.ParseMode(m.Mode)
	if err != nil {
		return Done{}, blocklist.Refuse(fmt.Errorf("mode: %w", err))
	}
	if len(m.Names) == 0 {
		return d.apply(ctx, &m.Order, blocklist.Change{Mode: &mode})
	}
	content, err := d.Content(ctx)
	if err != nil {
		return Done{}, err
	}
	var c blocklist.Change
	var problems []error
	for _, name := range m.Names {
		i := slices.IndexFunc(content.Rules, func(r *blocklist.Rule) bool { return r.Name == name })
		if i < 0 {
			problems = append(problems, fmt.Errorf("rule %q: there is none", name))
			continue
		}
		r := *content.Rules[i]
		r.Mode = mode
		c.Put = append(c.Put, r)
	}
	if err := errors.Join(problems...); err != nil {
		return Done{}, blocklist.Refuse(err)
	}
	done, err := d.apply(ctx, &m.Order, c)
	done.RuleMode = mode.String()
	return done, err
}

// Undo takes back what a change did.
func (d Desk) Undo(ctx context.Context, u Undo) (Done, error) {
	if u.Version == 0 {
		return Done{}, blocklist.Refuse(errors.New("version: must be that of a change"))
	}
	return d.apply(ctx, &u.Order, blocklist.Change{Undo: u.Version})
}

// Import makes a change that is written down.
func (d Desk) Import(ctx context.Context, im Import) (Done, error) {
	c, err := blocklist.ParseChange(strings.NewReader(im.Text))
	if err != nil {
		return Done{}, blocklist.Refuse(err)
	}
	if !im.Force {
		if err := d.checkNames(ctx, im.Text, &c); err != nil {
			return Done{}, err
		}
	}
	if im.Replace {
		content, err := d.Content(ctx)
		if err != nil {
			return Done{}, err
		}
		replace(&c, content.Sweep(d.Now()))
	}
	return d.linted(ctx, &im.Order, c)
}

// replace has a change take out the rules that it does not put, of a content without those that are over: they
// are there for nobody. Bans stay: zones go on making
// them, whatever is written down.
func replace(c *blocklist.Change, content blocklist.Content) {
	named := make(map[string]bool)
	for i := range c.Put {
		named[c.Put[i].Name] = true
	}
	for _, name := range c.Remove {
		named[name] = true
	}
	for _, r := range content.Rules {
		if !named[r.Name] {
			c.Remove = append(c.Remove, r.Name)
		}
	}
}

// apply makes a change and says what became of it.
func (d Desk) apply(ctx context.Context, o *Order, c blocklist.Change) (Done, error) {
	c.By, c.Why = o.By, o.Why
	var caller netip.Addr
	if o.Caller != "" {
		var err error
		if caller, err = netip.ParseAddr(o.Caller); err != nil {
			return Done{}, blocklist.Refuse(fmt.Errorf("caller: must be an address, got %q", o.Caller))
		}
	}
	before, err := d.Content(ctx)
	if err != nil {
		return Done{}, err
	}
	version, dangers, err := d.Apply(ctx, c, blocklist.Plain(caller), o.Force)
	if err != nil {
		return Done{}, err
	}
	if len(dangers) > 0 && !o.Force {
		return Done{}, dangerous(dangers)
	}
	if c.Undo != 0 {
		// Only the trail says what it came to.
		trail, err := d.Trail(ctx, usualTrail)
		if err != nil {
			return Done{Version: version}, err
		}
		for i := range trail {
			if trail[i].Version == version {
				c = trail[i].Change
			}
		}
	}
	done := d.tell(&c, before)
	done.Version = version
	if !d.Applied() && bites(&c) {
		done.Warnings = append(done.Warnings, notApplied)
	}
	for _, danger := range dangers {
		done.Insisted = append(done.Insisted, Danger(danger))
	}
	return done, nil
}

// notApplied says that a rule, or a ban, does nothing where it was made.
const notApplied = "no handler of this Caddy applies the list: what is on it refuses nobody here until a site has the directive block"

// bites reports whether a change puts anything that only a handler which applies the list enforces.
func bites(c *blocklist.Change) bool {
	return len(c.Put) > 0 || slices.ContainsFunc(c.Ban, func(b blocklist.Ban) bool { return b.Scope.Kind != blocklist.ScopeZone })
}

// dangerous says all that is dangerous in a change.
func dangerous(dangers []blocklist.Danger) error {
	var all []error
	for _, danger := range dangers {
		all = append(all, fmt.Errorf("%q: %s", danger.Rule, danger.Why))
	}
	return fmt.Errorf("%w: %w", errors.Join(all...), ErrDanger)
}

// tell says what a change did, as far as the change itself tells.
func (d Desk) tell(c *blocklist.Change, before blocklist.Content) Done {
	done := Done{Removed: c.Remove, Banned: len(c.Ban), Lifted: len(c.Lift)}
	shortened := 0
	was := make(map[string]bool, len(before.Rules))
	for _, r := range before.Rules {
		was[r.Name] = true
	}
	ends := func(at time.Time) {
		if at.IsZero() {
			at = d.Now().Add(blocklist.DefaultLife)
		}
		if at.Before(blocklist.Never) && (done.Ends == nil || at.Before(*done.Ends)) {
			done.Ends = &at
		}
	}
	for i := range c.Put {
		if name := c.Put[i].Name; was[name] {
			done.Replaced = append(done.Replaced, name)
		} else {
			done.Put = append(done.Put, name)
		}
		ends(c.Put[i].Expires)
	}
	for i := range c.Ban {
		b := &c.Ban[i]
		ends(b.Until)
		if old := before.Bans.Get(b.ID()); old != nil && !old.Over(d.Now()) {
			done.Rebanned++
			if b.Until.Before(old.Until) {
				shortened++
			}
		}
	}
	if shortened > 0 {
		done.Warnings = append(done.Warnings, fmt.Sprintf("%d of the bans that were there would have ended later", shortened))
	}
	if c.Mode != nil {
		done.Mode = c.Mode.String()
	}
	return done
}

// Test says what would become of a request.
func (d Desk) Test(ctx context.Context, a config.Ask) (Verdict, error) {
	r, err := a.Request()
	if err != nil {
		return Verdict{}, blocklist.Refuse(err)
	}
	mode, steps, err := d.Explain(ctx, &r)
	if err != nil {
		return Verdict{}, err
	}
	zones, doubt, err := d.zoneBans(ctx, &r)
	if err != nil {
		return Verdict{}, err
	}
	v := verdictOf(mode, withZones(steps, zones), r.Source)
	if doubt != "" && v.Outcome == Pass {
		v.Warnings = append(v.Warnings, doubt)
	}
	if v.Outcome != Pass && v.By != "config" && v.By != zonesStep && !d.Applied() {
		v.Warnings = append(v.Warnings, notApplied)
	}
	return v, nil
}

// History returns the last changes.
func (d Desk) History(ctx context.Context, n int) ([]Record, error) {
	trail, err := d.Trail(ctx, cmp.Or(max(n, 0), usualTrail))
	if err != nil {
		return nil, err
	}
	records := make([]Record, 0, len(trail))
	for i := range trail {
		records = append(records, recordOf(&trail[i]))
	}
	return records, nil
}

// usualTrail is how many changes are shown unless somebody wants more.
const usualTrail = 20

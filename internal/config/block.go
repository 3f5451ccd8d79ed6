package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/blocklist"
)

// Block is the configuration of one block handler. It looks at a request in this order:
// a mode of `off` ends it; what is allowed passes; ranges and rules refuse; rules in
// dry run are looked at last.
type Block struct {
	// Mode is `enforce`, `dry_run` (evaluates and reports, lets everything pass) or
	// `off` (looks at nothing). Default: `enforce`.
	Mode string `json:"mode,omitempty"`
	// Name stands for Everything and Ranges, which have no rules with names of their
	// own, in {http.block.rule}, logs and metrics. Default: `everything`, `ranges`.
	Name string `json:"name,omitempty"`
	// Everything refuses all requests that reach the handler: a matcher before it
	// chooses which. It goes with neither Ranges nor Rules.
	Everything bool `json:"everything,omitempty"`
	// Ranges are addresses and CIDR ranges of clients to refuse.
	Ranges []string `json:"ranges,omitempty"`
	// Rules, of which any one refuses. If several match, the first is reported.
	Rules []Rule `json:"rules,omitempty"`
	// AllowRanges are addresses and CIDR ranges that no rule refuses.
	AllowRanges []string `json:"allow_ranges,omitempty"`
	// Allow selects requests that no rule refuses.
	Allow caddyhttp.RawMatcherSets `json:"allow,omitempty" caddy:"namespace=http.matchers"`
	// Status of a refusal whose rule names none, 400 to 599. Default: 403.
	Status int `json:"status,omitempty"`
	// Body of a refusal, in which placeholders are replaced. Default: a short text.
	Body string `json:"body,omitempty"`
}

// Rule is one rule of a block handler: all its fields must match. A field that is
// absent, or `*`, matches anything; any other pattern matches no absent value. In
// patterns only `*` is special: it stands for any bytes, slashes too, and the pattern
// must fit the whole value. Of several patterns any one must match. Placeholders are
// not replaced.
type Rule struct {
	// Name tells the rule from the others, in {http.block.rule}, logs and metrics.
	Name string `json:"name"`
	// Host patterns, for the name without port, in any case.
	Host []string `json:"host,omitempty"`
	// URL patterns, for path and query as they were sent.
	URL []string `json:"url,omitempty"`
	// Path patterns, for the path as files are looked up by: decoded, and cleaned of
	// `//`, `/./` and `/../`. A pattern may leave out a slash at the end; case matters.
	Path []string `json:"path,omitempty"`
	// Method patterns, in any case.
	Method []string `json:"method,omitempty"`
	// ClientIP gives addresses and CIDR ranges for the client's address, which is
	// Caddy's: behind proxies it needs the server's trusted_proxies.
	ClientIP []string `json:"client_ip,omitempty"`
	// UserAgent patterns, in any case.
	UserAgent []string `json:"user_agent,omitempty"`
	// Agent gives names that stand in the user agent as whole words, in any case and
	// without stars. Thousands cost no more than one.
	Agent []string `json:"agent,omitempty"`
	// Query is a pattern for the raw query; an empty one means no parameters.
	Query *string `json:"query,omitempty"`
	// Header gives patterns by header name, of which one must match any one of the
	// header's values. Case matters in values, not in names.
	Header map[string][]string `json:"header,omitempty"`
	// Note is for people.
	Note string `json:"note,omitempty"`
	// Expires is when the rule ends: RFC 3339, or a duration that is counted from
	// when the configuration is loaded, and begins anew with each reload. Default:
	// never.
	Expires string `json:"expires,omitempty"`
	// Action is what becomes of the request: the status of the refusal, 400 to 599;
	// `abort` (the connection is closed without an answer); `tarpit` (the refusal
	// comes slowly, within the app's bounds); or `mark` (the request passes, with the rule's
	// name in {http.block.rule}). Default: a refusal with the handler's status.
	Action blocklist.Action `json:"action,omitempty"`
	// DryRun makes the rule report and let pass.
	DryRun bool `json:"dry_run,omitempty"`
}

// Validate joins all that is wrong with the block into one error.
func (b *Block) Validate() error {
	r := newReport()
	b.check(r)
	return r.err()
}

// check says what is wrong with the block.
func (b *Block) check(r report) {
	r.in("mode").problem(b.checkMode())
	checkStatus(r, b.Status)
	_, err := blocklist.ParsePrefixes(b.AllowRanges)
	r.in("allow_ranges").problem(err)
	switch targets := len(b.Ranges) + len(b.Rules); {
	case b.Everything && b.Name != "" && targets == 0:
		checkName(r, b.Name) // the set checks those of ranges and rules
	case b.Everything && targets > 0:
		r.in("everything").problemf("leaves nothing to ranges and rules")
	case !b.Everything && targets == 0:
		r.problemf("refuses nothing: needs a rule, an address or a matcher")
	}
	// The time does not matter here: a rule that is over is valid.
	_, err = b.compile(time.Unix(0, 0))
	r.problem(err)
	b.lint(r)
}

func (b *Block) checkMode() error {
	if b.Mode == "" {
		return nil
	}
	_, err := blocklist.ParseMode(b.Mode)
	return err
}

// Build compiles a block that is valid and logs what is unwise in it. Durations of
// rules are counted from now.
func (b *Block) Build(ctx caddy.Context, now time.Time) (*Gate, error) {
	g := &Gate{
		off:    b.Mode == off,
		status: cmp.Or(b.Status, 403),
		body:   b.Body,
		allows: len(b.Allow) > 0,
	}
	if b.Everything {
		g.everything = cmp.Or(b.Name, "everything")
		g.dryRun = b.Mode == blocklist.DryRun.String()
	}
	set, err := b.compile(now)
	if err != nil {
		return nil, err
	}
	g.list = blocklist.NewList(set)
	if g.allowRanges, err = blocklist.ParsePrefixes(b.AllowRanges); err != nil {
		return nil, fmt.Errorf("allow_ranges: %w", err)
	}
	loaded, err := ctx.LoadModule(b, "Allow")
	if err != nil {
		return nil, fmt.Errorf("allow: %w", err)
	}
	if err := g.allow.FromInterface(loaded); err != nil {
		return nil, fmt.Errorf("allow: %w", err)
	}
	r := newReport()
	b.lint(r)
	b.lintExpiry(r, now)
	r.log(ctx.Logger())
	return g, nil
}

// Names returns the name of everything that requests can be refused by: nothing while
// the block is off.
func (b *Block) Names() []string {
	if b.Mode == off {
		return nil
	}
	var names []string
	if b.Everything {
		names = append(names, cmp.Or(b.Name, "everything"))
	}
	if len(b.Ranges) > 0 {
		names = append(names, cmp.Or(b.Name, "ranges"))
	}
	for i := range b.Rules {
		names = append(names, b.Rules[i].Name)
	}
	return names
}

// compile makes a set of the ranges and rules.
func (b *Block) compile(now time.Time) (*blocklist.Set, error) {
	var rules []blocklist.Rule
	var problems []error
	if len(b.Ranges) > 0 {
		rules = append(rules, blocklist.Rule{
			Name:   cmp.Or(b.Name, "ranges"),
			Fields: []blocklist.Field{{Name: "client_ip", Patterns: b.Ranges}},
		})
	}
	for i := range b.Rules {
		rule, err := b.Rules[i].rule(now)
		if err != nil {
			problems = append(problems, fmt.Errorf("rule %q: expires: %w", b.Rules[i].Name, err))
		}
		rules = append(rules, rule)
	}
	if b.Mode == blocklist.DryRun.String() {
		for i := range rules {
			rules[i].Mode = blocklist.DryRun
		}
	}
	set, err := blocklist.NewSet(rules)
	return set, errors.Join(append(problems, err)...)
}

// rule turns the rule into one of the block list.
func (u *Rule) rule(now time.Time) (blocklist.Rule, error) {
	rule := blocklist.Rule{Name: u.Name, Action: u.Action, Note: u.Note}
	if u.DryRun {
		rule.Mode = blocklist.DryRun
	}
	// A list that is there but empty is kept, and refused later: it means nothing
	// rather than anything.
	field := func(name string, patterns []string) {
		if patterns != nil {
			rule.Fields = append(rule.Fields, blocklist.Field{Name: name, Patterns: patterns})
		}
	}
	field("client_ip", u.ClientIP)
	field("method", u.Method)
	field("host", u.Host)
	field("path", u.Path)
	field("url", u.URL)
	if u.Query != nil {
		field("query", []string{*u.Query})
	}
	field("user_agent", u.UserAgent)
	field("agent", u.Agent)
	for _, name := range slices.Sorted(maps.Keys(u.Header)) {
		rule.Fields = append(rule.Fields, blocklist.Field{Name: "header", Header: name, Patterns: u.Header[name]})
	}
	var err error
	rule.Expires, err = parseExpires(u.Expires, now)
	return rule, err
}

// parseExpires reads the end of a rule: a time, or a duration from now.
func parseExpires(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	d, err := caddy.ParseDuration(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("must be a duration such as 30d, or a time such as 2026-12-24T18:00:00Z, got %q", text)
	}
	if d <= 0 {
		return time.Time{}, fmt.Errorf("must be positive, got %s", text)
	}
	return now.Add(d), nil
}

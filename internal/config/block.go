package config

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/blocklist"
)

// Block is the configuration of one block handler. It looks at a request in this order:
// a mode of `off`, here or of the shared list, ends it; what is allowed passes; ranges and rules
// refuse; then, unless the client is protected, bans and rules of the shared list do; rules in
// dry run are looked at last. Without anything of its own it applies the shared list.
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
	// NoShared leaves the shared list out: only these rules count.
	NoShared bool `json:"no_shared,omitempty"`
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
	// Source restricts the rule to one source of load: `http` (plain requests), `websocket`
	// (upgrades, and messages that are asked about) or `job` (background jobs that are asked
	// about). Default: all.
	Source string `json:"source,omitempty"`
	// MessageType, User, Handler and Args give patterns for what is no plain request: the type of a
	// message, the user on whose behalf it comes or a job runs, the job's handler and any one of
	// its arguments. Case matters.
	MessageType []string `json:"message_type,omitempty"`
	User        []string `json:"user,omitempty"`
	Handler     []string `json:"handler,omitempty"`
	Args        []string `json:"args,omitempty"`
	// Dropped is what a worker does with a job that the rule matches: `drop`, `retry:30s` (try it
	// again after that time) or `dead_letter`. Default: `drop`.
	Dropped string `json:"dropped,omitempty"`
	// Scope is `all`, or `site:HOST` for requests to one host. Default: `all`.
	Scope string `json:"scope,omitempty"`
	// Author is who made the rule, and Created when, in RFC 3339.
	Author  string `json:"author,omitempty"`
	Created string `json:"created,omitempty"`
	// Note is for people.
	Note string `json:"note,omitempty"`
	// Expires is when the rule ends: RFC 3339, or a duration that is counted from
	// when the configuration is loaded, and begins anew with each reload; or `never`. Default:
	// never, and for rules that are made at run time 24h.
	Expires string `json:"expires,omitempty"`
	// Action is what becomes of the request: the status of the refusal, 400 to 599;
	// `abort` (the connection is closed without an answer); `tarpit` (the refusal
	// comes slowly, within the app's bounds); or `mark` (the request passes, with the rule's
	// name in {http.block.rule}). Default: a refusal with the handler's status.
	Action blocklist.Action `json:"action,omitempty"`
	// Mode is `enforce`, `dry_run` (reports and lets pass) or `off`. Default: `enforce`.
	Mode string `json:"mode,omitempty"`
	// DryRun is a mode of `dry_run`.
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
	case !b.Everything && targets == 0 && b.NoShared:
		r.problemf("refuses nothing: needs a rule, an address, a matcher or the shared list")
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
		name:   cmp.Or(b.Name, "block"),
		off:    b.Mode == off,
		dryRun: b.Mode == blocklist.DryRun.String(),
		status: cmp.Or(b.Status, 403),
		body:   b.Body,
		allows: len(b.Allow) > 0,
		alone:  b.NoShared,
	}
	if b.Everything {
		g.everything = cmp.Or(b.Name, "everything")
	}
	set, err := b.compile(now)
	if err != nil {
		return nil, err
	}
	g.own = set
	if g.asked, err = b.compileAsked(now); err != nil {
		return nil, err
	}
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
		rule, err := b.Rules[i].Rule(now)
		if err != nil {
			problems = append(problems, fmt.Errorf("rule %q: %w", b.Rules[i].Name, err))
		}
		rules = append(rules, rule)
	}
	if b.Mode == blocklist.DryRun.String() {
		for i := range rules {
			if rules[i].Mode == blocklist.Enforce {
				rules[i].Mode = blocklist.DryRun
			}
		}
	}
	set, err := blocklist.NewSet(rules)
	return set, errors.Join(append(problems, err)...)
}

// Package weir is a Caddy plugin that limits the rate of requests and blocks those that
// are unwelcome.
//
// It consists of the app [App], named "weir", which holds what its handlers share, and
// of three handlers: [RateLimit], http.handlers.rate_limit, [Block], http.handlers.block,
// and [Check], http.handlers.weir_check; and of [IPSource], http.ip_sources.weir. This file binds them to Caddy; what they may be configured with
// is told in package internal/config, and how requests are counted in package limiter.
package weir

import (
	"cmp"
	"context"
	"net/http"
	"net/netip"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/blocklist"
	_ "github.com/weirhq/caddy-weir/internal/admin" // the admin endpoint's routes
	_ "github.com/weirhq/caddy-weir/internal/cli"   // caddy weir …
	"github.com/weirhq/caddy-weir/internal/config"
	"github.com/weirhq/caddy-weir/internal/observe"
	"github.com/weirhq/caddy-weir/internal/respond"
	"github.com/weirhq/caddy-weir/limiter/headers"
)

func init() {
	caddy.RegisterModule(new(App))
	caddy.RegisterModule(new(RateLimit))
	caddy.RegisterModule(new(Block))
	caddy.RegisterModule(new(Check))
	caddy.RegisterModule(new(IPSource))
}

// App holds what all handlers share: the stores and the defaults.
type App struct {
	config.App

	shared *config.Shared
	tarpit *respond.Tarpit
	stop   context.CancelFunc
}

// CaddyModule implements [caddy.Module].
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "weir", New: func() caddy.Module { return new(App) }}
}

// Provision opens the stores. All that handlers need is ready afterwards.
func (a *App) Provision(ctx caddy.Context) (err error) {
	a.tarpit = respond.NewTarpit(a.TarpitBounds())
	a.shared, err = a.Build(ctx)
	return err
}

// Start begins the background work.
func (a *App) Start() error {
	var ctx context.Context
	ctx, a.stop = context.WithCancel(context.Background())
	go a.shared.Run(ctx)
	return nil
}

// Stop ends the background work. It does not wait for an event handler that is still
// busy: a reload must not hang on it.
func (a *App) Stop() error {
	if a.stop != nil {
		a.stop()
	}
	return nil
}

// Cleanup gives the stores back. Requests that are still on their way do no harm.
func (a *App) Cleanup() error {
	a.tarpit.End()
	if a.shared == nil {
		return nil
	}
	return a.shared.Close()
}

// RateLimit limits the rate of requests. Every zone that matches a request is asked, all
// in one step: a request that one of them refuses is answered with status 429 and
// charged to none of them.
type RateLimit struct {
	config.RateLimit

	meter *config.Meter
}

// CaddyModule implements [caddy.Module].
func (*RateLimit) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.rate_limit", New: func() caddy.Module { return new(RateLimit) }}
}

// Provision checks the configuration and builds it.
func (h *RateLimit) Provision(ctx caddy.Context) error {
	app, err := sharedApp(ctx)
	if err != nil {
		return err
	}
	h.meter, err = h.Build(ctx, app)
	return err
}

// ServeHTTP passes the request on, answers it from memory, or refuses it.
func (h *RateLimit) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	p := h.meter.Preview(r)
	if p == nil {
		return h.decide(w, r, nil, next)
	}
	return p.Serve(w, r, next, func(next caddyhttp.Handler) error { return h.decide(w, r, p, next) })
}

// decide passes the request on, or refuses it. p is the request as a preview; nil if it is none.
func (h *RateLimit) decide(w http.ResponseWriter, r *http.Request, p *config.Preview, next caddyhttp.Handler) error {
	d, err := h.meter.ReadPreview(r, p)
	if err != nil {
		return err
	}
	headers.Write(w.Header(), h.meter.Headers, &d.Decision)
	if d.Allowed {
		return h.meter.Serve(d, w, r, next)
	}
	if answer := h.meter.Instead(d, r); answer != nil {
		config.MarkRefused(r)
		respond.Instead(w, r, (*respond.Content)(answer))
		h.meter.Answered(d, r, answer.Status)
		return nil
	}
	h.meter.Explain(r, d)
	refusal := respond.Refusal{
		Status: cmp.Or(d.Status, h.meter.Status), Message: h.meter.Message, Reason: d.Reason, Wait: d.Wait, Plain: d.Plain(),
	}
	if d.Blamed >= 0 {
		refusal.Decision = &d.Decision
	}
	config.MarkRefused(r)
	err = respond.Refuse(w, r, &refusal)
	h.meter.Refused(d, r, refusal.Status)
	return err
}

// Block refuses unwelcome requests, or marks them, by the rules of a configuration.
type Block struct {
	config.Block

	gate   *config.Gate
	app    *config.Shared
	tarpit *respond.Tarpit
	// seen is what observers keep about each rule, by name.
	seen   map[string]*observe.Rule
	forget func()
}

// CaddyModule implements [caddy.Module].
func (*Block) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.block", New: func() caddy.Module { return new(Block) }}
}

// Provision checks the configuration and builds it.
func (h *Block) Provision(ctx caddy.Context) error {
	app, err := ourApp(ctx)
	if err != nil {
		return err
	}
	if err := h.Validate(); err != nil {
		return err
	}
	if h.gate, err = h.Build(ctx, config.Now()); err != nil {
		return err
	}
	h.app, h.tarpit = app.shared, app.tarpit
	if err := h.gate.Join(h.app); err != nil {
		return err
	}
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		// A server that shuts down waits for its requests.
		server.RegisterOnShutdown(h.tarpit.End)
	}
	h.seen = make(map[string]*observe.Rule)
	for _, name := range h.Names() {
		h.seen[name] = observe.NewRule(name)
	}
	h.forget = observe.AddRules("config", len(h.seen))
	return nil
}

// ServeHTTP passes the request on, or refuses it in one of several ways.
func (h *Block) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if h.gate.Off() {
		return next.ServeHTTP(w, r)
	}
	h.app.LintProxies(r)
	now := config.Now()
	mark := h.app.Sample(r, now)
	refusal, err := h.gate.Match(r, now)
	if err != nil {
		return err
	}
	for _, rule := range refusal.DryRun {
		h.tell(r, rule, observe.DryRefused)
	}
	for _, rule := range refusal.DryMarked {
		h.tell(r, rule, observe.DryMarked)
	}
	for _, hit := range refusal.SharedDry {
		kind := observe.DryRefused
		if hit.Rule != nil && hit.Rule.Action == blocklist.Mark {
			kind = observe.DryMarked
		}
		h.tellShared(r, hit, kind)
	}
	if refusal.Rule == "" {
		return config.Sampled(mark, w, r, next)
	}
	if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		repl.Set("http.block.rule", refusal.Rule)
	}
	if refusal.Action == blocklist.Mark {
		h.tellOf(r, &refusal, observe.Marked)
		return config.Sampled(mark, w, r, next)
	}
	mark.End(refusal.Status, "")
	return h.refuse(w, r, &refusal)
}

func (h *Block) refuse(w http.ResponseWriter, r *http.Request, refusal *config.Refusal) error {
	answer := respond.Refusal{
		Status: refusal.Status, Code: respond.PermissionDenied, Message: refusal.Body, Wait: refusal.RetryAfter,
	}
	config.MarkRefused(r)
	switch {
	case refusal.Action == blocklist.Abort:
		h.tellOf(r, refusal, observe.Aborted)
		respond.Abort()
	case refusal.Action == blocklist.Tarpit && h.tarpit.Enter():
		h.tellOf(r, refusal, observe.Tarpitted)
		h.tarpit.Refuse(w, r, &answer)
		return nil
	}
	h.tellOf(r, refusal, observe.Refused)
	return respond.Refuse(w, r, &answer)
}

// tellOf tells of what refuses or marks.
func (h *Block) tellOf(r *http.Request, refusal *config.Refusal, kind observe.Kind) {
	if refusal.Shared.None() {
		h.tell(r, refusal.Rule, kind)
		return
	}
	h.tellShared(r, refusal.Shared, kind)
}

// tellShared tells of what the shared list has against a request.
func (h *Block) tellShared(r *http.Request, hit blocklist.Hit, kind observe.Kind) {
	o := observe.Outcome{Request: r, Kind: kind, Rule: h.app.List().Seen(hit)}
	if hit.Rule != nil {
		o.Name = hit.Rule.Name
	}
	h.app.Observers.Observe(o)
}

func (h *Block) tell(r *http.Request, rule string, kind observe.Kind) {
	h.app.Observers.Observe(observe.Outcome{Request: r, Kind: kind, Rule: h.seen[rule]})
}

// Cleanup takes the rules out of the count of those in force.
func (h *Block) Cleanup() error {
	if h.forget != nil {
		h.forget()
	}
	return nil
}

// Check answers workers that ask whether they may run a job, by the rules that block
// requests. It passes nothing on.
type Check struct {
	config.Check

	checker *config.Checker
}

// CaddyModule implements [caddy.Module].
func (*Check) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.weir_check", New: func() caddy.Module { return new(Check) }}
}

// Provision checks the configuration and builds it.
func (h *Check) Provision(ctx caddy.Context) error {
	app, err := sharedApp(ctx)
	if err != nil {
		return err
	}
	if err := h.Validate(); err != nil {
		return err
	}
	h.checker, err = h.Build(app)
	return err
}

// ServeHTTP answers what the request asks.
func (h *Check) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	return h.checker.Answer(w, r)
}

// IPSource knows ranges of addresses from a list that others keep, for what in Caddy wants ranges: `trusted_proxies weir
// <file or address>`.
type IPSource struct {
	config.IPSource

	ranges *config.Ranges
}

// CaddyModule implements [caddy.Module].
func (*IPSource) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.ip_sources.weir", New: func() caddy.Module { return new(IPSource) }}
}

// Provision reads the list.
func (s *IPSource) Provision(ctx caddy.Context) (err error) {
	s.ranges, err = s.Build(ctx)
	return err
}

// GetIPRanges implements [caddyhttp.IPRangeSource].
func (s *IPSource) GetIPRanges(*http.Request) []netip.Prefix { return s.ranges.Get() }

// Cleanup gives the list back.
func (s *IPSource) Cleanup() error {
	if s.ranges == nil {
		return nil
	}
	return s.ranges.Close()
}

// sharedApp returns what all handlers of the configuration share, also if it says
// nothing of the app.
func sharedApp(ctx caddy.Context) (*config.Shared, error) {
	app, err := ourApp(ctx)
	if err != nil {
		return nil, err
	}
	return app.shared, nil
}

// ourApp returns the configuration's app, which Caddy makes if it says nothing of one.
func ourApp(ctx caddy.Context) (*App, error) {
	app, err := ctx.App("weir")
	if err != nil {
		return nil, err
	}
	return app.(*App), nil
}

var (
	_ caddy.App                   = (*App)(nil)
	_ caddy.Provisioner           = (*App)(nil)
	_ caddy.CleanerUpper          = (*App)(nil)
	_ caddy.Provisioner           = (*RateLimit)(nil)
	_ caddyhttp.MiddlewareHandler = (*RateLimit)(nil)
	_ caddy.Provisioner           = (*Block)(nil)
	_ caddy.CleanerUpper          = (*Block)(nil)
	_ caddyhttp.MiddlewareHandler = (*Block)(nil)
	_ caddy.Provisioner           = (*Check)(nil)
	_ caddyhttp.MiddlewareHandler = (*Check)(nil)
	_ caddy.Provisioner           = (*IPSource)(nil)
	_ caddy.CleanerUpper          = (*IPSource)(nil)
	_ caddyfile.Unmarshaler       = (*IPSource)(nil)
	_ caddyhttp.IPRangeSource     = (*IPSource)(nil)
)

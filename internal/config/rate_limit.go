package config

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/limiter/headers"
)

// RateLimit is the configuration of one rate_limit handler. Its JSON is a superset of
// mholt/caddy-ratelimit's.
type RateLimit struct {
	// Zones by name. All zones that match a request are decided in one step.
	Zones map[string]*Zone `json:"rate_limits,omitempty"`
	// DryRun makes every zone count and report, but never refuse.
	DryRun bool `json:"dry_run,omitempty"`
	// Status of a refusal. Default: 429.
	Status int `json:"status,omitempty"`
	// Message is the text of a refusal. Default: a sentence that says how long to wait.
	Message string `json:"message,omitempty"`
	// Jitter lengthens each Retry-After by up to this fraction of it, at random,
	// so that clients do not return all at once. 0 to 1. Default: 0.
	Jitter float64 `json:"jitter,omitempty"`
	// Headers as in the app. Default: what the app says.
	Headers string `json:"headers,omitempty"`
	// OnStoreError as in the app. Default: what the app says.
	OnStoreError string `json:"on_store_error,omitempty"`
	// LogKey writes the key of a refused request to the log.
	LogKey bool `json:"log_key,omitempty"`

	// Distributed, Storage, SweepInterval and DisableMetrics belong to
	// mholt/caddy-ratelimit. They are read and have no effect; Distributed warns
	// when no Redis is configured.
	Distributed    json.RawMessage `json:"distributed,omitempty"`
	Storage        json.RawMessage `json:"storage,omitempty"`
	SweepInterval  caddy.Duration  `json:"sweep_interval,omitempty"`
	DisableMetrics bool            `json:"disable_metrics,omitempty"`
}

// defaultStatus is the status of a refusal by a limit.
const defaultStatus = http.StatusTooManyRequests

// Validate says everything that is wrong with the configuration, in one error.
func (h *RateLimit) Validate() error {
	r := newReport()
	h.check(r, new(App))
	return r.err()
}

func (h *RateLimit) check(r report, app *App) {
	if len(h.Zones) == 0 {
		r.problemf("must have a zone")
	}
	for _, name := range h.names() {
		in := r.in("zone %q", name)
		checkName(in, name)
		h.Zones[name].check(in, app)
	}
	checkStatus(r, h.Status)
	if !(h.Jitter >= 0 && h.Jitter <= 1) {
		r.in("jitter").problemf("must be between 0 and 1, got %g", h.Jitter)
	}
	checkHeaders(r, h.Headers)
	checkOnStoreError(r, h.OnStoreError)
	warning, unknown := checkText(h.Message)
	r.in("message").problem(unknown)
	if warning != "" {
		r.in("message").warn(warning)
	}
	if h.Distributed != nil && app.Redis == nil {
		r.in("distributed").warn("each instance counts for itself until the global options name a Redis that they share")
	}
}

// names returns the zones' names in order.
func (h *RateLimit) names() []string { return slices.Sorted(maps.Keys(h.Zones)) }

// Build makes a valid configuration ready to serve.
func (h *RateLimit) Build(ctx caddy.Context, s *Shared) (*Meter, error) {
	r := newReport()
	h.check(r, &s.app)
	place := s.place(ctx)
	for _, name := range h.names() {
		if z := h.Zones[name]; z != nil {
			s.zones.add(r.in("zone %q", name), name, place, z, &s.app)
		}
	}
	second, twice := s.sequence(ctx).enter(h.names())
	if second {
		r.in("%s", place).warn("several rate_limit handlers decide one after the other; zones in one block are decided together")
	}
	for _, name := range twice {
		r.in("%s", place).in("zone %q", name).warn("an earlier handler of the same routes has this zone as well: a request that reaches both is charged twice")
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	r.log(ctx.Logger())

	c := *h
	setDefault(&c.Status, defaultStatus)
	setDefault(&c.Headers, s.app.Headers)
	setDefault(&c.OnStoreError, s.app.OnStoreError)
	m := &Meter{
		Status: c.Status, Message: c.Message,
		store:    s.store(c.OnStoreError),
		leases:   s.lessors(c.OnStoreError),
		settlers: s.settlers(c.OnStoreError),
		jitter:   c.Jitter,
		denying:  c.OnStoreError == deny,
		guessing: s.redis != nil && c.OnStoreError != local,
		logKey:   c.LogKey,
		shared:   s,
		logger:   ctx.Logger(),
	}
	var err error
	if m.Headers, err = headers.Parse(c.Headers); err != nil {
		return nil, err
	}
	for _, name := range c.names() {
		z, err := c.Zones[name].build(ctx, name, &s.app, c.DryRun)
		if err != nil {
			return nil, err
		}
		if z.ban, err = c.Zones[name].Ban.build(c.Zones[name], z, s, c.LogKey); err != nil {
			return nil, err
		}
		if z.feed, err = c.Zones[name].Feed.build(c.Zones[name], z, s); err != nil {
			return nil, err
		}
		if z.previews, err = c.Zones[name].Previews.build(z, s); err != nil {
			return nil, err
		}
		m.add(z, s)
		m.leasing = m.leasing || c.Zones[name].InFlight > 0
	}
	return m, nil
}

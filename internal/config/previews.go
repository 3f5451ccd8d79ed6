package config

import (
	"maps"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/internal/copies"
	"github.com/weirhq/caddy-weir/internal/observe"
	"github.com/weirhq/caddy-weir/internal/preview"
)

// Previews makes a zone one for programs that fetch a page to show a preview of a link to it. When a
// link is posted, hundreds of them ask for the same page within seconds, each from an address of its
// own. The first request for an address goes to the site, the others wait for its answer, and for a
// while all are given a copy of it. What may not be shared is passed on.
//
// The zone applies to these programs only, and its limits to those of their requests that go to the
// site. Its key is by default the name of the family: {http.rate_limit.preview}.
type Previews struct {
	// Agents are families of programs: by their names lists of patterns of user agents, in which
	// only `*` is special. They are known besides the built-in ones, or in the place of the one of
	// the same name.
	Agents map[string][]string `json:"agents,omitempty"`
	// NoBuiltin leaves the built-in families out.
	NoBuiltin bool `json:"no_builtin,omitempty"`
	// Hold is how long an answer is given to others, 1s to 1h, unless it says itself that it is not
	// fresh for that long. Default: 1m.
	Hold caddy.Duration `json:"hold,omitempty"`
	// Wait is how long a request waits for another that is under way, 100ms to 1m. Then it goes to
	// the limits by itself. Default: 10s.
	Wait caddy.Duration `json:"wait,omitempty"`
	// Memory is how many bytes the answers may take in all, 65,536 or more; one may take a quarter
	// of them. Default: 33554432, 32 MiB.
	Memory int64 `json:"memory,omitempty"`
}

// What Previews' zero values stand for.
const (
	defaultHold = caddy.Duration(time.Minute)
	defaultWait = caddy.Duration(10 * time.Second)
)

// previewName is the placeholder of the family that a request is of, and previewKey the key of a
// zone for previews that has none.
const (
	previewName = "http.rate_limit.preview"
	previewKey  = "{" + previewName + "}"
)

// resolved returns the block with its defaults filled in.
func (p *Previews) resolved() *Previews {
	if p == nil {
		return nil
	}
	c := *p
	setDefault(&c.Hold, defaultHold)
	setDefault(&c.Wait, defaultWait)
	setDefault(&c.Memory, defaultCopyMemory)
	return &c
}

// check says what is wrong with the block and with the zone that it stands in.
func (p *Previews) check(r report, z *Zone) {
	if p == nil {
		return
	}
	c := p.resolved()
	if c.Hold < caddy.Duration(time.Second) || c.Hold > caddy.Duration(time.Hour) {
		r.in("hold").problemf("must be between 1s and 1h, got %s", time.Duration(c.Hold))
	}
	if c.Wait < caddy.Duration(100*time.Millisecond) || c.Wait > caddy.Duration(time.Minute) {
		r.in("wait").problemf("must be between 100ms and 1m, got %s", time.Duration(c.Wait))
	}
	checkMemory(r.in("memory"), c.Memory)
	families := c.families()
	for _, name := range slices.Sorted(maps.Keys(families)) {
		if in := r.in("agents"); name == "" {
			in.problemf("a family must have a name")
		} else if len(families[name]) == 0 {
			in.problemf("%s: must have a pattern", name)
		}
	}
	_, err := preview.New(families)
	r.in("agents").problem(err)
	switch {
	case len(families) == 0:
		r.in("agents").problemf("must be at least one with no_builtin")
	case z.Feed != nil:
		r.problemf("cannot be had with feed: write another zone, feeds are read by other programs")
	}
}

// families are the programs that the zone is for.
func (p *Previews) families() map[string][]string {
	all := make(map[string][]string)
	if !p.NoBuiltin {
		maps.Copy(all, preview.Builtin)
	}
	maps.Copy(all, p.Agents)
	return all
}

// A previewMeter is a Previews that is built.
type previewMeter struct {
	finder     *preview.Finder
	shelf      *copies.Shelf
	flights    *copies.Flights
	hold, wait time.Duration
	seen       *observe.Copies
	shadow     bool
}

// build makes a valid block ready to serve; nil if there is none. m is its zone.
func (p *Previews) build(m *zoneMeter, s *Shared) (*previewMeter, error) {
	if p == nil {
		return nil, nil
	}
	c := p.resolved()
	finder, err := preview.New(c.families())
	if err != nil {
		return nil, err
	}
	pool, err := s.holds.copies(m.seen.Name, c.Memory)
	if err != nil {
		return nil, err
	}
	return &previewMeter{
		finder: finder, shelf: pool.shelf, flights: pool.flights,
		hold: time.Duration(c.Hold), wait: time.Duration(c.Wait), shadow: m.shadow,
		seen: observe.NewCopies(m.seen.Name, observe.CopyHit, observe.CopyCoalesced, observe.CopyMiss, observe.CopyPassed, observe.CopyDryHit),
	}, nil
}

package config

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/weirhq/caddy-weir/internal/aggregator"
	"github.com/weirhq/caddy-weir/internal/observe"
)

// An aggregatorMeter is Aggregators that are built: it says whether a request is of one, and how
// much more that one is allowed. A nil meter knows none.
type aggregatorMeter struct {
	set      aggregator.Set
	scale    aggregator.Scale
	max      int
	audience *aggregator.Audience
	seen     *observe.Aggregators
	log      *observe.Log
}

// An audienceKey names the audience of a zone in the pool, a verifierKey what looks addresses
// up by some DNS servers: neither forgets anything over a reload.
type (
	audienceKey struct{ zone string }
	verifierKey struct{ resolvers string }
)

type pooledAudience struct{ *aggregator.Audience }

// Destruct implements [caddy.Destructor].
func (pooledAudience) Destruct() error { return nil }

type pooledVerifier struct{ *aggregator.Verifier }

// Destruct implements [caddy.Destructor].
func (pooledVerifier) Destruct() error { return nil }

// build makes valid aggregators of a zone, whose defaults are filled in, ready; nil if there are none.
func (a *Aggregators) build(zone string, s *Shared) (*aggregatorMeter, error) {
	if a == nil {
		return nil, nil
	}
	m := &aggregatorMeter{
		scale: aggregator.Scale(slices.Index(aggregator.Scales, a.Scale)), max: a.Max,
		seen: observe.NewAggregators(zone), log: s.log,
	}
	for i := range a.Known {
		one, err := a.Known[i].build(s)
		if err != nil {
			return nil, fmt.Errorf("zone %q: feed: aggregators: aggregator %q: %w", zone, a.Known[i].Name, err)
		}
		m.set.All = append(m.set.All, one)
	}
	audience, err := s.holds.take(audienceKey{zone}, func() (caddy.Destructor, error) {
		return pooledAudience{aggregator.NewAudience()}, nil
	})
	if err != nil {
		return nil, err
	}
	m.audience = audience.(pooledAudience).Audience
	if slices.ContainsFunc(a.Known, func(one Aggregator) bool { return len(one.DNS) > 0 }) {
		m.set.Verifier, err = s.verifier(a.Resolvers)
	}
	return m, err
}

func (a *Aggregator) build(s *Shared) (one aggregator.Aggregator, err error) {
	one.Name = a.Name
	if one.Agents, err = a.patterns(); err != nil {
		return one, err
	}
	if one.Domains, err = aggregator.ParseDomains(a.DNS); err != nil {
		return one, err
	}
	ranges, err := parseRanges(a.Ranges)
	if err != nil {
		return one, err
	}
	one.Ranges = []aggregator.Ranges{ranges}
	for _, path := range a.Files {
		f, err := openRanges(path, a.Name, s.logger)
		if err != nil {
			return one, err
		}
		one.Ranges = append(one.Ranges, f)
		s.chores = append(s.chores, f.follow)
	}
	return one, nil
}

// verifier returns what looks addresses up by these DNS servers, and has it run.
func (s *Shared) verifier(resolvers []string) (*aggregator.Verifier, error) {
	servers, err := resolverAddresses(resolvers)
	if err != nil {
		return nil, err
	}
	v, err := s.holds.take(verifierKey{strings.Join(servers, " ")}, func() (caddy.Destructor, error) {
		o := aggregator.Options{Told: toldOfLookUps, Now: Now}
		if len(servers) > 0 {
			o.Resolver = resolverAt(servers)
		}
		return pooledVerifier{aggregator.NewVerifier(o)}, nil
	})
	if err != nil {
		return nil, err
	}
	verifier := v.(pooledVerifier).Verifier
	s.chores = append(s.chores, verifier.Run)
	return verifier, nil
}

// resolverAt returns a resolver that asks these servers in turn.
func resolverAt(servers []string) *net.Resolver {
	var dialer net.Dialer
	var turn atomic.Uint32
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, servers[int(turn.Add(1)-1)%len(servers)])
	}}
}

// toldOfLookUps logs that the DNS does not answer, or does again. It outlives configurations.
func toldOfLookUps(err error) {
	logger := caddy.Log().Named("weir")
	if err != nil {
		logger.Warn("addresses of aggregators cannot be looked up: new ones are treated as all others, known ones stay known for a day", zap.Error(err))
		return
	}
	logger.Info("addresses of aggregators can be looked up again")
}

// identify returns the aggregator that a request is of, nil if it is of none that is verified.
func (m *aggregatorMeter) identify(r *http.Request, client netip.Addr) *aggregator.Aggregator {
	if m == nil {
		return nil
	}
	found, verdict := m.set.Find(r.UserAgent(), client, Now)
	if found == nil {
		return nil
	}
	m.log.Aggregator(m.seen, found.Name, verdict, client, r)
	if verdict != aggregator.Verified {
		return nil
	}
	return found
}

// factor returns by how much an aggregator is allowed more of a feed, by what its agent says.
func (m *aggregatorMeter) factor(of *aggregator.Aggregator, feed []byte, agent string) int {
	n, _ := aggregator.Subscribers(agent)
	return m.scale.Factor(m.audience.Largest(of.Name, feed, n, Now()), m.max)
}

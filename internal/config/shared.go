package config

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/weirhq/caddy-weir/internal/observe"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/layer"
	"github.com/weirhq/caddy-weir/limiter/memstore"
)

// Shared is an App that is built: what all handlers of one configuration share.
//
// Handlers are built one after the other while Caddy loads the configuration, and may
// serve on after Close, when a reload has put others in their place.
type Shared struct {
	// Observers hear of every decision.
	Observers observe.Observers

	app    App // with its defaults
	logger *zap.Logger
	log    *observe.Log
	events *observe.Events
	hasher *limiter.Hasher // names keys in placeholders
	lint   proxyLint

	holds   holds
	memory  *memstore.Store
	redis   limiter.Store            // nil if counts are kept in memory
	pooled  pooledRedis              // the same, with what belongs to it
	layered map[string]limiter.Store // by the word of on_store_error

	memoryLeases, redisLeases *lessor             // of memory and redis
	settled                   map[string]settlers // by the word of on_store_error

	reserves *layer.Reserves // nil if counts are kept in memory
	deferred *layer.Deferred
	counted  *memstore.Store // what deferred limits count here

	bans   *bans
	crowds crowds
	feeds  feedZones

	chores []func(ctx context.Context) // background work that handlers need

	list    *List // the shared block list
	gatesMu sync.Mutex
	gates   []*Gate // of all block handlers
	// checkers counts the weir_check handlers; speaksOfList is set if the app says anything of the list.
	checkers     atomic.Int32
	speaksOfList bool

	// What has been loaded so far.
	zones  registry
	known  knownZones
	placed map[*caddyhttp.Server]int // how many handlers each server has
	lists  map[routeList]*sequence   // and which each list of routes has
}

// The memory store is swept a little at a time, all of it about once a minute.
const (
	sweepInterval = time.Second
	sweepParts    = 60
)

// Build makes what the handlers share. Close must be called when Build succeeded, once
// the configuration is no longer needed.
func (a *App) Build(ctx caddy.Context) (*Shared, error) {
	r := newReport()
	a.check(r)
	if err := r.err(); err != nil {
		return nil, err
	}
	app := a.resolved(r)
	if err := r.err(); err != nil {
		return nil, err
	}
	s := &Shared{
		app:          app,
		speaksOfList: a.Block != nil,
		logger:       ctx.Logger(),
		hasher:       newHasher(app.Secret),
		layered:      make(map[string]limiter.Store),
		settled:      make(map[string]settlers),
		zones:        make(registry),
		placed:       make(map[*caddyhttp.Server]int),
		lists:        make(map[routeList]*sequence),
	}
	r.log(s.logger)
	if err := s.open(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// open takes what has to be given back by Close.
func (s *Shared) open(ctx caddy.Context) error {
	if err := observe.Register(ctx.GetMetricsRegistry()); err != nil {
		return err
	}
	s.log = observe.NewLog(s.logger)
	events, err := observe.NewEvents(ctx)
	if err != nil {
		return err
	}
	s.events = events
	s.Observers = observe.Observers{observe.Metrics{}, s.log, s.events}
	if s.memory, s.memoryLeases, err = s.holds.memory(s.app.MaxKeys); err != nil {
		return fmt.Errorf("memory store: %w", err)
	}
	if s.app.Redis != nil {
		if s.pooled, err = s.holds.redis(&s.app); err != nil {
			return err
		}
		s.redis, s.redisLeases = s.pooled.Store, s.pooled.leases
		s.pooled.users.join(s)
	}
	if err = s.openModes(); err != nil {
		return fmt.Errorf("count after: %w", err)
	}
	if s.list, err = newList(ctx, s); err != nil {
		return fmt.Errorf("block: %w", err)
	}
	return s.openBans()
}

// Run does the background work until ctx is done: it lets expired keys go and hands
// events to their handlers, and warns of what is wrong with Redis once that is there.
func (s *Shared) Run(ctx context.Context) {
	defer s.publish()()
	var work sync.WaitGroup
	work.Go(func() { s.list.run(ctx) })
	work.Go(func() { s.events.Run(ctx) })
	work.Go(func() { s.sweep(ctx) })
	work.Go(func() { s.deferred.Run(ctx) })
	work.Go(func() { s.runReserves(ctx) })
	work.Go(func() { s.bans.run(ctx) })
	work.Go(func() { s.crowds.Run(ctx) })
	for _, chore := range s.chores {
		work.Go(func() { chore(ctx) })
	}
	if s.redis != nil {
		work.Go(func() { s.inspect(ctx) })
		work.Go(func() { s.pooled.ListenFreed(ctx, s.pooled.refusals) })
	}
	work.Wait()
}

// sweep also gives the stores in memory their bound, again and again: an older configuration has
// set another one, and so may a newer one that ran for a moment until its load failed.
func (s *Shared) sweep(ctx context.Context) {
	memory := []*memstore.Store{s.memory, s.counted}
	for _, m := range memory {
		m.SetMaxKeys(s.app.MaxKeys)
	}
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			for _, m := range memory {
				m.SetMaxKeys(s.app.MaxKeys)
				m.Sweep(s.app.MaxKeys/sweepParts + 1)
			}
			if s.redis != nil {
				s.pooled.refusals.Sweep(sweepParts)
			}
		}
	}
}

// Close gives back what Build took. What still serves afterwards does no harm: the
// memory store stays, and a Redis store that nobody else uses is unavailable.
func (s *Shared) Close() error {
	s.closeModes()
	if s.redis != nil {
		s.pooled.users.leave(s)
	}
	if s.redisLeases != nil && caddy.Exiting() {
		s.redisLeases.quit()
		for _, with := range s.settled {
			with.first.await(settleFarewell)
		}
	}
	var err error
	if s.list != nil {
		err = s.list.close()
	}
	return errors.Join(err, s.holds.release())
}

// lessors returns what keeps the leases of the store that decides.
func (s *Shared) lessors(onStoreError string) lessors {
	switch {
	case s.redis == nil:
		return lessors{first: s.memoryLeases}
	case onStoreError == local:
		return lessors{first: s.redisLeases, second: s.memoryLeases}
	}
	return lessors{first: s.redisLeases}
}

// store returns the store that decides, with the layers around it.
func (s *Shared) store(onStoreError string) limiter.Store {
	if st := s.layered[onStoreError]; st != nil {
		return st
	}
	st := observe.Watch("memory")(s.memory)
	if s.redis != nil {
		second := layer.Share(s.app.Instances, st)
		switch onStoreError {
		case allow:
			second = layer.AllowAll{}
		case deny:
			second = layer.DenyAll{}
		}
		// From the innermost, before which reserves and the breaker stand, to the outermost.
		st = s.reserves
		for _, around := range []layer.Layer{
			layer.Fallback(second),
			s.pooled.refusals.Around,
		} {
			st = around(st)
		}
	}
	st = s.deferred.Around(st) // which asks none of them
	s.layered[onStoreError] = st
	return st
}

// LintProxies warns, once for each configuration, if a request shows that clients are
// not who they seem. Both handlers show it theirs.
func (s *Shared) LintProxies(r *http.Request) {
	s.lint.check(r, s.logger)
	s.list.protection.learn(r)
}

// place names the next rate_limit handler in messages, as well as it is known.
func (s *Shared) place(ctx caddy.Context) string {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	s.placed[server]++
	if !ok {
		return fmt.Sprintf("rate_limit handler %d", s.placed[server])
	}
	return fmt.Sprintf("rate_limit handler %d of server %q", s.placed[server], server.Name())
}

package config

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/weirhq/caddy-weir/blocklist"
	lists "github.com/weirhq/caddy-weir/blocklist/source"
	"github.com/weirhq/caddy-weir/internal/observe"
)

// runtimeRules is what the part of rules made at run time is called.
const runtimeRules = "shared"

// staleAfter is after how long without its keeper the shared list is called stale.
const staleAfter = time.Minute

// A List is the shared block list of one configuration: what is made at run time, the lists of
// others that the configuration names, and what it allows and protects. It is safe for concurrent
// use, and works, with what it has, also after its configuration is gone.
type List struct {
	app *App // with its defaults

	opening sync.Mutex
	holds   holds
	gone    bool
	opened  chan struct{}        // closed once there is a core
	core    atomic.Pointer[core] // nil while the list is closed

	mode       blocklist.Mode // the strictest that the configuration wants
	allow      *blocklist.Prefixes
	protection *protection
	names      *namer
	sources    []*listSource
	logger     *zap.Logger
	events     *observe.Events
	log        *observe.Log
	budget     *blocklist.Budget

	snapshot atomic.Pointer[blocklist.Snapshot]
	seen     map[string]*observe.Rule // by the name of a source
	made     *observe.Rule            // stands for rules made at run time
	banned   *observe.Rule            // stands for bans

	mu      sync.Mutex // of what a snapshot is composed of
	content blocklist.Content
	part    *blocklist.Part
	forget  func()
	closed  bool

	stale atomic.Bool // the event was emitted
}

// newList makes the list of a configuration. Close must be called in the end.
func newList(ctx caddy.Context, s *Shared) (*List, error) {
	conf := s.app.Block
	l := &List{
		app: &s.app, logger: s.logger, events: s.events, log: s.log,
		opened:     make(chan struct{}),
		protection: newProtection(conf.Protect, conf.Allow),
		names:      newNamer(s, s.app.listDir()),
		seen:       make(map[string]*observe.Rule),
		made:       observe.NewRule(runtimeRules),
		banned:     observe.NewRule("ban"),
	}
	l.allow = l.protection.allowed
	l.mode, _ = blocklist.ParseMode(conf.Mode) // "" is enforce
	if conf.Mode == "" {
		l.mode = blocklist.Enforce
	}
	l.budget = &blocklist.Budget{Stopped: l.stopped}
	var err error
	if l.sources, err = newSources(ctx, conf, l); err != nil {
		return nil, err
	}
	for _, src := range l.sources {
		l.seen[src.Name()] = observe.NewRule(src.Name())
		src.load()
	}
	l.compose()
	if s.app.Redis == nil || s.speaksOfList {
		_, err = l.open()
	}
	return l, err
}

// close takes the list out of what is told of changes. Those who still ask get what there was.
func (l *List) close() error {
	err := l.release()
	for _, src := range l.sources {
		src.close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.forget != nil {
		l.forget()
	}
	return err
}

// run does the background work until ctx is done, once the list is open.
func (l *List) run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-l.opened:
	}
	var work sync.WaitGroup
	work.Go(func() { l.core.Load().run(ctx) })
	work.Go(func() { l.look(ctx) })
	for _, src := range l.sources {
		work.Go(func() { src.run(ctx) })
	}
	work.Wait()
}

// look sees, again and again, to what only time changes: a list that becomes too old, the secret of a
// Redis that is there at last, a keeper that is away for too long.
func (l *List) look(ctx context.Context) {
	core := l.core.Load()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		l.names.save()
		l.compose()
		s := core.state()
		if s.since.IsZero() {
			l.stale.Store(false)
		} else if Now().Sub(s.since) >= staleAfter && l.stale.CompareAndSwap(false, true) {
			l.logger.Warn("the shared block list is stale", zap.String("list", core.where), zap.Duration("age", core.age()), zap.Error(s.trouble))
			l.events.ListStale(core.where, core.age(), s.trouble)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// refresh takes what was made at run time.
func (l *List) refresh(content blocklist.Content, part *blocklist.Part) {
	l.mu.Lock()
	if part != l.part || l.forget == nil {
		if l.forget != nil {
			l.forget()
		}
		l.forget = observe.AddRules(runtimeRules, part.Len())
	}
	l.content, l.part = content, part
	l.mu.Unlock()
	l.compose()
}

// compose puts a new snapshot in force, unless it would be the one there is.
func (l *List) compose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := Now()
	next := &blocklist.Snapshot{
		Mode: max(l.mode, l.content.Mode), Allow: l.allow, Protected: l.protection.ranges,
		Bans: l.content.Bans, Name: l.names.network, Budget: l.budget,
	}
	if l.part.Len() > 0 {
		next.Parts = append(next.Parts, l.part)
	}
	for _, src := range l.sources {
		if part := src.current(now); part.Len() > 0 {
			next.Parts = append(next.Parts, part)
		}
	}
	if before := l.snapshot.Load(); before == nil || !before.Same(next) {
		l.snapshot.Store(next)
	}
}

// damagedList is what the log says of a file of which something cannot be read any more.
const damagedList = "the file of the shared block list is damaged"

// heard logs that the keeper is in trouble, or out of it.
func (l *List) heard(c *core, err error) {
	message := ""
	level := zap.WarnLevel
	switch {
	case isDamaged(err):
		message, level = damagedList, zap.ErrorLevel
	case isUnreadable(err):
		message = "some of the shared block list cannot be read and is not in force; a newer version may have written it"
	case isFollowed(err):
		message = "Redis does not permit this user to change the shared block list: it is followed, and bans stay on their own node"
	case err != nil:
		message = "the shared block list cannot be followed; the last one known stays in force"
	}
	switch {
	case message == c.told:
		return
	case message == "" && c.told == damagedList:
		l.logger.Info("the file of the shared block list is whole again; a damaged one that was replaced is kept beside it", zap.String("list", c.where), zap.String("kept", c.where+".broken"))
	case message == "":
		l.logger.Info("the shared block list is followed again", zap.String("list", c.where))
	default:
		l.logger.Log(level, message, zap.String("list", c.where), zap.Error(err))
	}
	c.told = message
}

// heardCopy logs that the copy on disk is of no use, or that it is again.
func (l *List) heardCopy(c *core, err error) {
	switch {
	case err != nil && !c.copyTold:
		l.logger.Warn("the copy of the shared block list on disk is of no use: a start while Redis is away finds no list", zap.String("copy", c.copy), zap.Error(err))
	case err == nil && c.copyTold:
		l.logger.Info("the copy of the shared block list on disk is good again", zap.String("copy", c.copy))
	}
	c.copyTold = err != nil
}

// restored logs that a list was given back.
func (l *List) restored(content blocklist.Content) {
	l.logger.Warn("Redis had lost the shared block list, and was given back the last one known here",
		zap.Uint64("version", content.Version), zap.Int("rules", len(content.Rules)), zap.Int("bans", content.Bans.Len()))
}

// ended tells of a ban that is not in force any more.
func (l *List) ended(e observe.Ended) {
	l.log.BanEnded(e)
	l.events.BanEnded(e)
}

// stopped logs that a rule in dry run takes too long.
func (l *List) stopped(rule *blocklist.Rule) {
	l.logger.Error("a rule in dry run takes too long and was stopped", zap.String("rule", rule.Name), zap.Duration("budget", blocklist.DefaultBudget))
}

// Snapshot returns what is in force now. It is never nil.
func (l *List) Snapshot() *blocklist.Snapshot { return l.snapshot.Load() }

// Content returns what was made at run time, as far as this process knows.
func (l *List) Content() blocklist.Content { return l.state().content }

// Mode returns the mode in force: the less strict of the configuration's and the one set at run
// time.
func (l *List) Mode() blocklist.Mode { return l.snapshot.Load().Mode }

// ErrDangerous is the error of a change that could lock its maker out, or everybody, and was not
// insisted on.
var ErrDangerous = errors.New("the change is dangerous: force it if it is meant")

// Apply makes a change of the shared list and waits until it is in force here, or ctx is done. caller is the
// address of whoever makes it, invalid if that is not known. What is dangerous in the change is returned; without force it
// is then not made, and the error is [ErrDangerous]. An error that wraps [blocklist.ErrRefused] is the change's fault, one
// that wraps [limiter.ErrUnavailable] that of Redis.
func (l *List) Apply(ctx context.Context, c blocklist.Change, caller netip.Addr, force bool) (uint64, []blocklist.Danger, error) {
	core, err := l.open()
	if err != nil {
		return 0, nil, err
	}
	dangers, err := l.Guard().CheckIn(ctx, core.keeper, c, caller)
	if err != nil {
		return 0, nil, err
	}
	if len(dangers) > 0 && !force {
		return 0, dangers, ErrDangerous
	}
	version, err := core.keeper.Apply(ctx, c)
	if err != nil {
		return 0, dangers, err
	}
	wait, cancel := context.WithTimeout(ctx, applyWait)
	defer cancel()
	if err := core.await(wait, version); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return version, dangers, fmt.Errorf("version %d is made, and cannot be put in force: %w", version, err)
	}
	return version, dangers, nil
}

// applyWait is how long Apply waits until its change is in force.
const applyWait = time.Second

// Guard knows what changes must not block by mistake.
func (l *List) Guard() *blocklist.Guard {
	return &blocklist.Guard{Protected: l.protection.all(), Name: func(p netip.Prefix) string {
		name, _ := l.names.network(nil, p)
		return string(name)
	}}
}

// Trail returns the last n changes, the latest first.
func (l *List) Trail(ctx context.Context, n int) ([]blocklist.Record, error) {
	core, err := l.open()
	if err != nil {
		return nil, err
	}
	return core.keeper.Trail(ctx, n)
}

// A ListState tells how the shared list is.
type ListState struct {
	// Where it is kept: redis, or the path of a file; empty while it is closed.
	Where string
	// Version that is in force here.
	Version uint64
	// Age is how long ago that was known to be up to date; 0 while the keeper is followed.
	Age time.Duration
	// Error is what is wrong with the keeper, or with what it says; empty if nothing is.
	Error string
	// CopyError is what is wrong with the copy on disk; empty if nothing is.
	CopyError string
	// Sources are the lists of others.
	Sources []lists.Status
}

// State tells how the list is.
func (l *List) State() ListState {
	out := ListState{Sources: l.Sources()}
	core := l.core.Load()
	if core == nil {
		return out
	}
	s := core.state()
	out.Where, out.Version, out.Age = core.where, s.content.Version, core.age()
	if err := errors.Join(s.trouble, s.bad); err != nil {
		out.Error = err.Error()
	}
	if s.copyFault != nil {
		out.CopyError = s.copyFault.Error()
	}
	return out
}

// Sources tells how the lists of others are.
func (l *List) Sources() []lists.Status {
	all := make([]lists.Status, len(l.sources))
	for i, src := range l.sources {
		all[i] = src.Status()
	}
	return all
}

package config

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/weirhq/caddy-weir/blocklist"
	lists "github.com/weirhq/caddy-weir/blocklist/source"
	"github.com/weirhq/caddy-weir/internal/observe"
)

// A listSource is a list that somebody else keeps, as one configuration has it.
type listSource struct {
	lists.Source

	rule    blocklist.Rule
	expires time.Duration // 0 for never
	list    *List

	mu       sync.Mutex
	part     *blocklist.Part
	err      error  // why part is older than the list
	forget   func() // takes the rules out of the count of those in force
	reported string // the last error that was logged
	advised  string // the last advice about its names that was logged
}

// load takes what is at hand, before the first request.
func (s *listSource) load() {
	parsed, err := s.Load()
	if err != nil {
		s.report(lists.Status{Error: cmp.Or(s.Status().Error, err.Error())})
	}
	s.take(parsed)
	if status := s.Status(); !status.Success.IsZero() {
		s.tell(&status)
	}
}

// tell logs what was read.
func (s *listSource) tell(status *lists.Status) {
	s.list.logger.Info("block list read", zap.String("list", s.Name()),
		zap.Int("prefixes", status.Prefixes), zap.Int("agents", status.Agents),
		zap.Int("stripped", status.Stripped), zap.Int("rejected", status.Rejected))
	for _, line := range status.Lines {
		s.list.logger.Warn("a line of a block list was not taken", zap.String("list", s.Name()),
			zap.Int("line", line.Number), zap.String("text", line.Text), zap.String("why", line.Why))
	}
}

// take compiles a list. If that fails the one before stays.
func (s *listSource) take(parsed lists.Parsed) {
	part, err := blocklist.NewListPart(blocklist.Entries{
		Rule: s.rule, Prefixes: parsed.Prefixes, Until: parsed.Until, Agents: parsed.Agents,
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err = err; err != nil {
		message := "a block list cannot be used; the one before stays in force"
		if s.part.Len() == 0 {
			message = "a block list cannot be used, and there is none before: nothing of it is in force"
		}
		s.list.logger.Error(message, zap.String("list", s.Name()), zap.Error(err))
		return
	}
	s.part = part
	s.advise(parsed.Agents)
	if s.forget != nil {
		s.forget()
	}
	s.forget = observe.AddRules(s.Name(), part.Len())
}

// advise warns of names in the list that stand in the agents of ordinary clients, again only if they are
// others. It is called with mu held.
func (s *listSource) advise(agents []string) {
	r := newReport()
	lintAgents(r.in("list %q", s.Name()).in("agent"), agents)
	if advice := fmt.Sprint(r.warnings); advice != s.advised {
		s.advised = advice
		r.log(s.list.logger)
	}
}

// current returns the part, unless the list is too old to count.
func (s *listSource) current(now time.Time) *blocklist.Part {
	s.mu.Lock()
	defer s.mu.Unlock()
	if success := s.Status().Success; s.expires > 0 && !success.IsZero() && now.Sub(success) > s.expires {
		return nil
	}
	return s.part
}

// run follows the list until ctx is done.
func (s *listSource) run(ctx context.Context) {
	err := s.Watch(ctx, func(parsed lists.Parsed, status lists.Status) {
		s.take(parsed)
		s.list.compose()
		s.tell(&status)
	})
	if err != nil && ctx.Err() == nil {
		s.report(lists.Status{Error: err.Error()})
	}
}

// report logs what is wrong with the list, each thing once, and that nothing is any more.
func (s *listSource) report(status lists.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if status.Error == s.reported {
		return
	}
	s.reported = status.Error
	if status.Error == "" {
		s.list.logger.Info("block list is up to date again", zap.String("list", s.Name()))
		return
	}
	message := "a block list cannot be read; the one before stays in force"
	if s.part.Len() == 0 {
		message = "a block list cannot be read, and there is none before: nothing of it is in force"
	}
	s.list.logger.Warn(message, zap.String("list", s.Name()), zap.String("error", status.Error))
}

func (s *listSource) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forget != nil {
		s.forget()
	}
}

// newSources makes the sources of a valid configuration.
func newSources(ctx caddy.Context, b *SharedBlock, l *List) ([]*listSource, error) {
	var all []*listSource
	protected := func() []netip.Prefix { return l.protection.all() }
	add := func(o *ListOptions, open func(report func(lists.Status)) (lists.Source, error)) error {
		s := &listSource{list: l, expires: time.Duration(o.Expires)}
		var err error
		if s.Source, err = open(s.report); err != nil {
			return err
		}
		s.rule = o.rule(s.Name())
		all = append(all, s)
		return nil
	}
	for i := range b.Files {
		f := &b.Files[i]
		err := add(&f.ListOptions, func(report func(lists.Status)) (lists.Source, error) {
			return f.build(protected, report), nil
		})
		if err != nil {
			return nil, err
		}
	}
	for i := range b.URLs {
		u := &b.URLs[i]
		err := add(&u.ListOptions, func(report func(lists.Status)) (lists.Source, error) {
			return u.build(protected, listDir(), report)
		})
		if err != nil {
			return nil, err
		}
	}
	for i := range b.IPSources {
		m := &b.IPSources[i]
		err := add(&m.ListOptions, func(report func(lists.Status)) (lists.Source, error) {
			return m.build(ctx, protected, report)
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

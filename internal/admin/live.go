package admin

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/blocklist/source"
	"github.com/weirhq/caddy-weir/internal/config"
	"github.com/weirhq/caddy-weir/internal/observe"
	"github.com/weirhq/caddy-weir/limiter"
)

// live is the board of the configuration that runs.
type live struct{ shared *config.Shared }

func (b live) Content(context.Context) (blocklist.Content, error) {
	return b.shared.List().Content(), nil
}

func (b live) Apply(ctx context.Context, c blocklist.Change, caller netip.Addr, force bool) (uint64, []blocklist.Danger, error) {
	version, dangers, err := b.shared.List().Apply(ctx, c, caller, force)
	if errors.Is(err, config.ErrDangerous) {
		err = nil // the dangers say it
	}
	return version, dangers, err
}

func (b live) Trail(ctx context.Context, n int) ([]blocklist.Record, error) {
	return b.shared.List().Trail(ctx, n)
}

func (b live) Name(_ context.Context, key string) (string, error) {
	name, known := b.shared.Name(key)
	if !known {
		return "", fmt.Errorf("the secret by which bans name clients lies in Redis, which has not been reached yet: %w", limiter.ErrUnavailable)
	}
	return name, nil
}

func (b live) Explain(_ context.Context, r *blocklist.Request) (blocklist.Mode, []blocklist.Step, error) {
	return b.shared.List().Mode(), b.shared.Explain(r, b.Now()), nil
}

func (live) Sample() ([]observe.Seen, bool) { return observe.Recents.All(), true }

func (b live) Applied() bool { return b.shared.Applied() }

func (b live) Network(client netip.Addr) netip.Prefix { return b.shared.Network(client) }

func (b live) Zone(name string) (config.KnownZone, bool, error) {
	zone, known := b.shared.Zone(name)
	if !known {
		return zone, true, noZone(name, b.shared.ZoneNames())
	}
	return zone, true, nil
}

// noZone says that there is no zone of a name, and which there are.
func noZone(name string, known []string) error {
	if len(known) == 0 {
		return fmt.Errorf("no zone %q: this Caddy has none", name)
	}
	const most = 20
	more := ""
	if len(known) > most {
		known, more = known[:most], ", …"
	}
	return fmt.Errorf("no zone %q (known here: %s%s)", name, strings.Join(known, ", "), more)
}

func (live) Now() time.Time { return config.Now() }

func (b live) Describe(_ context.Context, l *List) {
	list := b.shared.List()
	state := list.State()
	l.Mode = list.Mode().String()
	l.Keeper, l.Age, l.Trouble = state.Where, state.Age.Seconds(), state.Error
	l.CopyTrouble = state.CopyError
	for i := range state.Sources {
		l.Sources = append(l.Sources, sourceOf(&state.Sources[i]))
	}
}

func sourceOf(s *source.Status) Source {
	out := Source{
		Name: s.Name, Where: s.Where, Format: fmt.Sprint(s.Format),
		Entries: s.Prefixes + s.Agents, Stripped: s.Stripped, Rejected: s.Rejected,
		FromCopy: s.FromCopy, Trouble: s.Error,
	}
	for _, line := range s.Lines {
		out.Lines = append(out.Lines, RejectedLine(line))
	}
	if !s.Success.IsZero() {
		out.Loaded = &s.Success
	}
	if !s.Next.IsZero() {
		out.Next = &s.Next
	}
	return out
}

var _ Board = live{}

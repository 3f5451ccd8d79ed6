package admin

import (
	"context"
	"net/netip"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/internal/config"
	"github.com/weirhq/caddy-weir/internal/observe"
)

// Direct is the board of a list that is reached where it is kept, past any Caddy.
type Direct struct {
	// Place of the list.
	*config.Place
}

// Content implements [Board]. What cannot be read of a list does not keep anybody from changing
// the rest, or from switching it off.
func (d Direct) Content(ctx context.Context) (blocklist.Content, error) {
	content, err := d.Keeper.Load(ctx)
	if config.Readable(content, err) {
		err = nil
	}
	return content, err
}

// Apply implements [Board].
func (d Direct) Apply(ctx context.Context, c blocklist.Change, caller netip.Addr, force bool) (uint64, []blocklist.Danger, error) {
	guard := blocklist.Guard{Protected: d.Protected, Name: func(network netip.Prefix) string {
		name, _ := d.Name(ctx, string(blocklist.Network(nil, network))) // no name is that of no ban
		return name
	}}
	dangers, err := guard.CheckIn(ctx, d.Keeper, c, caller)
	if err != nil {
		return 0, nil, err
	}
	if len(dangers) > 0 && !force {
		return 0, dangers, nil
	}
	version, err := d.Keeper.Apply(ctx, c)
	return version, dangers, err
}

// Trail implements [Board].
func (d Direct) Trail(ctx context.Context, n int) ([]blocklist.Record, error) {
	return d.Keeper.Trail(ctx, n)
}

// Name implements [Board].
func (d Direct) Name(ctx context.Context, key string) (string, error) { return d.Place.Name(ctx, key) }

// Sample implements [Board]: nobody has served anything here.
func (Direct) Sample() ([]observe.Seen, bool) { return nil, false }

// Describe implements [Board].
func (d Direct) Describe(ctx context.Context, l *List) {
	l.Keeper = d.Where
	if _, err := d.Keeper.Load(ctx); err != nil {
		l.Trouble = err.Error()
	}
}

// Applied implements [Board]: which servers there are is not known here.
func (Direct) Applied() bool { return true }

// Network implements [Board]: which length a configuration gives them is not known here.
func (Direct) Network(client netip.Addr) netip.Prefix { return usualNetwork(client) }

// Zone implements [Board]: zones are those of servers.
func (Direct) Zone(string) (config.KnownZone, bool, error) { return config.KnownZone{}, false, nil }

// Now implements [Board].
func (Direct) Now() time.Time { return config.Now() }

// Explain implements [Board]: by the list alone.
func (d Direct) Explain(ctx context.Context, r *blocklist.Request) (blocklist.Mode, []blocklist.Step, error) {
	content, err := d.Content(ctx)
	if err != nil {
		return 0, nil, err
	}
	part, err := blocklist.NewPart("", content.Rules, nil)
	if err != nil {
		return 0, nil, err
	}
	protected := make([]string, len(d.Protected))
	for i, p := range d.Protected {
		protected[i] = p.String()
	}
	ranges, err := blocklist.ParsePrefixes(protected)
	if err != nil {
		return 0, nil, err
	}
	s := &blocklist.Snapshot{
		Mode: content.Mode, Protected: ranges, Parts: []*blocklist.Part{part}, Bans: content.Bans,
		Name: func(dst []byte, network netip.Prefix) ([]byte, bool) {
			name, err := d.Name(ctx, string(blocklist.Network(nil, network)))
			return append(dst, name...), err == nil
		},
	}
	return content.Mode, s.Explain(r, d.Now()), nil
}

var _ Board = Direct{}

package config

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	lists "github.com/weirhq/caddy-weir/blocklist/source"
)

// ListModule is a list of ranges that another module of Caddy knows, such as those of CDNs. It is asked once
// a minute, and what it says is judged, and cut, like any other list.
type ListModule struct {
	// Source is a module of the namespace http.ip_sources. Required, and so is the name of the
	// list.
	Source json.RawMessage `json:"source,omitempty" caddy:"namespace=http.ip_sources inline_key=source"`

	ListOptions
}

func (m *ListModule) check(r report) {
	if m.Name == "" {
		r.in("name").problemf("must be given: it stands in logs and metrics")
	}
	if len(m.Source) == 0 {
		r.in("source").problemf("must be a module, such as static")
	}
	if m.Format != "" {
		r.in("format").problemf("has no use: a module knows ranges, and not their text")
	}
	m.ListOptions.check(r)
}

func (m *ListModule) build(ctx caddy.Context, protected func() []netip.Prefix, report func(lists.Status)) (lists.Source, error) {
	loaded, err := ctx.LoadModule(m, "Source")
	if err != nil {
		return nil, fmt.Errorf("ip_source %q: source: %w", m.Name, err)
	}
	known := loaded.(caddyhttp.IPRangeSource)
	// Modules may look at the request that is on its way; here none is.
	none, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if err != nil {
		return nil, err
	}
	get := func() []netip.Prefix { return known.GetIPRanges(none) }
	return lists.Live(m.Name, get, m.options(m.Name, protected, report)), nil
}

package config

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// A routeList is where handlers follow one another: a subroute, or the routes of a
// server itself.
type routeList struct {
	parent caddy.Module
	server *caddyhttp.Server
}

// A sequence is the rate_limit handlers of one list of routes. Whether a request reaches
// more than one of them is up to the matchers before them.
type sequence struct {
	handlers int
	zones    map[string]bool
}

// enter notes the next handler and its zones. It reports whether it is the second one, and
// which of the zones an earlier one has as well.
func (q *sequence) enter(zones []string) (second bool, twice []string) {
	q.handlers++
	for _, name := range zones {
		if q.zones[name] {
			twice = append(twice, name)
		}
		q.zones[name] = true
	}
	return q.handlers == 2, twice
}

// sequence returns that of the handler which ctx provisions.
func (s *Shared) sequence(ctx caddy.Context) *sequence {
	modules := ctx.Modules()
	if len(modules) < 2 {
		return &sequence{zones: make(map[string]bool)}
	}
	list := routeList{parent: modules[len(modules)-2]}
	list.server, _ = ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if s.lists[list] == nil {
		s.lists[list] = &sequence{zones: make(map[string]bool)}
	}
	return s.lists[list]
}

package config

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Serve passes an allowed request on, and does what its zones want done when it has been
// served. It takes the reading back.
func (m *Meter) Serve(d *Reading, w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	leases := d.Leases
	if !m.followed(d) {
		m.Free(d)
		return leases.Serve(w, r, next)
	}
	seen, reader, out := watch(d, w)
	next = d.stale(next)
	panicked, err := true, error(nil)
	defer func() {
		m.follow(d, r, seen.response(err, panicked), reader, err == nil && !panicked)
		m.Free(d)
	}()
	err = leases.Serve(out, r, next)
	panicked = false
	return err
}

// watch returns what sees the answer go by, and the writer to answer with. A reader of a feed
// has one of its own.
func watch(d *Reading, w http.ResponseWriter) (seen *witness, reader *feedWriter, out http.ResponseWriter) {
	if p := d.reader(); p != nil {
		reader = newFeedWriter(w, p)
		return &reader.witness, reader, reader
	}
	seen = &witness{ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: w}}
	return seen, nil, seen
}

// followed reports whether any zone wants to know what became of the request.
func (m *Meter) followed(d *Reading) bool {
	if m.spotter.wants() {
		return true
	}
	for i := range d.parts {
		if p := &d.parts[i]; p.fate == asked && p.zone.follows() {
			return true
		}
	}
	return false
}

// follow tells the zones of an allowed request what became of it. It runs after the handlers,
// but before the last of the answer leaves for the client: it must not wait for anything. whole
// is set if the handlers ended as they wanted.
func (m *Meter) follow(d *Reading, r *http.Request, seen Response, reader *feedWriter, whole bool) {
	if m.spotter.wants() {
		m.spotter.spot(r, &seen)
	}
	for i := range d.parts {
		p := &d.parts[i]
		if p.fate != asked {
			continue
		}
		if ban := p.bans(); ban.follows() {
			ban.served(p.key, r, &seen, p.refused || d.counted && d.refusal(p) >= 0)
		}
		if p.zone.deferred {
			m.shared.deferred.Settle(d.asks[p.from:p.to], d.Results[p.from:p.to])
		}
		from := p.from
		if p.entered {
			p.zone.feed.served(m, d, p, r, &seen, reader, whole)
			from++ // has its own price
		}
		if p.zone.prices != nil && d.counted {
			p.zone.prices.settle(m.settlers, d.asks[from:p.to], d.Results[from:p.to], &seen)
		}
	}
}

// follows reports whether the zone wants to know what became of the requests it let pass.
func (z *zoneMeter) follows() bool {
	return z.prices != nil || z.deferred || z.feed != nil || z.ban.follows()
}

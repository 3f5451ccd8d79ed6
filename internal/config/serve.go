package config

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Serve passes an allowed request on, and does what its zones want done when it has been
// served. It takes the reading back.
func (m *Meter) Serve(d *Reading, w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	leases := d.Leases
	if !d.followed() {
		m.Free(d)
		return leases.Serve(w, r, next)
	}
	seen := &witness{ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: w}}
	panicked, err := true, error(nil)
	defer func() {
		m.follow(d, r, seen.response(err, panicked))
		m.Free(d)
	}()
	err = leases.Serve(seen, r, next)
	panicked = false
	return err
}

// followed reports whether any zone wants to know what became of the request.
func (d *Reading) followed() bool {
	for i := range d.parts {
		if p := &d.parts[i]; p.fate == asked && p.zone.follows() {
			return true
		}
	}
	return false
}

// follow tells the zones of an allowed request what became of it. It runs after the handlers,
// but before the last of the answer leaves for the client: it must not wait for anything.
func (m *Meter) follow(d *Reading, r *http.Request, seen Response) {
	for i := range d.parts {
		p := &d.parts[i]
		if p.fate != asked {
			continue
		}
		if p.zone.prices != nil && d.counted {
			p.zone.prices.settle(m.settlers, d.asks[p.from:p.to], d.Results[p.from:p.to], &seen)
		}
	}
}

// follows reports whether the zone wants to know what became of the requests it let pass.
func (z *zoneMeter) follows() bool { return z.prices != nil }

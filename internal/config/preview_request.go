package config

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/internal/copies"
	"github.com/weirhq/caddy-weir/internal/observe"
)

// A Preview is a request of a program that shows previews of links.
type Preview struct {
	zone   *zoneMeter
	meter  *previewMeter
	key    string // of the copies
	shared bool   // whether it may be answered with what others were given
}

// of reports whether the preview is one of the zone.
func (p *Preview) of(z *zoneMeter) bool { return p != nil && p.zone == z }

// Preview returns the request as a preview; nil if it is none. Requests of other programs cost a
// look at their user agent.
func (m *Meter) Preview(r *http.Request) *Preview {
	if len(m.previews) == 0 {
		return nil
	}
	agent := r.Header["User-Agent"]
	if len(agent) == 0 {
		return nil
	}
	for _, z := range m.previews {
		family := z.previews.finder.Family(agent[0])
		if family == "" {
			continue
		}
		applies, exempt, err := z.applies(r, ClientIP(r))
		if err == nil && !applies {
			continue
		}
		p := &Preview{zone: z, meter: z.previews}
		if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
			repl.Set(previewName, family)
		}
		if key, ok := copyKey(r); ok && err == nil && !exempt && copies.Anonymous(r) {
			p.key, p.shared = copies.KeyByAccept(key, r.Header)
		}
		return p
	}
	return nil
}

// rounds is how many flights one request waits for at most: a copy may be one that its client
// cannot read.
const rounds = 4

// elapsed is a timer that has run out.
var elapsed = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()

// Serve answers the request from memory, or has it passed on. pass asks the limits, and then the
// handler that it is given.
func (p *Preview) Serve(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, pass func(next caddyhttp.Handler) error) error {
	m := p.meter
	if c, ok := p.find(r); ok {
		return p.hit(w, r, c, observe.CopyHit, next, pass)
	}
	// What wants a part of an answer cannot fetch the whole for others, nor can a HEAD that has to stay
	// as it is.
	if !p.shared || copies.Partial(r) || m.shadow && r.Method == http.MethodHead || m.shelf.Alone(p.key, Now()) {
		m.seen.Use(r, observe.CopyPassed)
		return pass(next)
	}
	late := elapsed
	if !m.shadow {
		timer := time.NewTimer(m.wait)
		defer timer.Stop()
		late = timer.C
	}
	for range rounds {
		flight, leads := m.flights.Enter(p.key)
		if flight == nil {
			break
		}
		end := copies.Leads
		if !leads {
			end = flight.Wait(r.Context(), late)
		}
		switch end {
		case copies.Leads:
			if c, ok := p.find(r); ok { // somebody was sooner
				flight.Land(true)
				return p.hit(w, r, c, observe.CopyHit, next, pass)
			}
			return p.fetch(w, r, next, pass, flight)
		case copies.Gone:
			return caddyhttp.Error(statusClientGone, r.Context().Err())
		case copies.Landed:
			if c, ok := p.find(r); ok {
				return p.hit(w, r, c, observe.CopyCoalesced, next, pass)
			}
			continue
		case copies.Late:
			if m.shadow {
				m.seen.Use(r, observe.CopyDryHit)
				return pass(next)
			}
			flight.Leave()
			if c, ok := p.find(r); ok { // somebody was faster than who leads
				return p.hit(w, r, c, observe.CopyCoalesced, next, pass)
			}
		}
		break
	}
	return p.fetch(w, r, next, pass, nil)
}

// statusClientGone is what Caddy logs for a client that is gone before it was answered.
const statusClientGone = 499

// find returns a copy for the request.
func (p *Preview) find(r *http.Request) (c copies.Copy, ok bool) {
	if !p.shared {
		return c, false
	}
	return p.meter.shelf.Find(p.key, r.Header, Now())
}

// hit answers with a copy. No limit is asked, and no store.
func (p *Preview) hit(w http.ResponseWriter, r *http.Request, c copies.Copy, use observe.CopyUse, next caddyhttp.Handler, pass func(next caddyhttp.Handler) error) error {
	if p.meter.shadow {
		p.meter.seen.Use(r, observe.CopyDryHit)
		return pass(next)
	}
	p.meter.seen.Use(r, use)
	how := "weir; hit"
	if use == observe.CopyCoalesced {
		how = "weir; fwd=miss; collapsed"
	}
	w.Header().Add("Cache-Status", how)
	c.Send(w, r, Now())
	return nil
}

package config

import (
	"time"

	"github.com/caddyserver/caddy/v2"
)

// Tarpit is the configuration of what rules with the action `tarpit` do to requests.
type Tarpit struct {
	// Max is how many requests are held at once by this process; those beyond it get the
	// plain refusal. 1 to 10,000. Default: 128.
	Max int `json:"max,omitempty"`
	// Time is how long each of them is held. 1s to 10m. Default: 10s.
	Time caddy.Duration `json:"time,omitempty"`
}

// What Tarpit's zero values stand for, and its bounds: each request that is held takes a
// connection and some memory.
const (
	defaultTarpitMax  = 128
	defaultTarpitTime = caddy.Duration(10 * time.Second)

	mostTarpitMax   = 10_000
	leastTarpitTime = time.Second
	mostTarpitTime  = 10 * time.Minute
)

func (p *Tarpit) check(r report) {
	if p.Max < 0 || p.Max > mostTarpitMax {
		r.in("max").problemf("must be between 1 and %d, got %d", mostTarpitMax, p.Max)
	}
	if d := time.Duration(p.Time); d != 0 && (d < leastTarpitTime || d > mostTarpitTime) {
		r.in("time").problemf("must be between %s and %s, got %s", leastTarpitTime, mostTarpitTime, d)
	}
}

// TarpitBounds returns how many requests are held at once, and for how long each, with the
// defaults filled in.
func (a *App) TarpitBounds() (most int, each time.Duration) {
	var p Tarpit
	if a.Tarpit != nil {
		p = *a.Tarpit
	}
	setDefault(&p.Max, defaultTarpitMax)
	setDefault(&p.Time, defaultTarpitTime)
	return p.Max, time.Duration(p.Time)
}

package config

import (
	"cmp"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
)

// Evidence is what is known of the last request that counted for a ban.
type evidence struct {
	host, path, agent string
	client            string
	status            int
	at                time.Time
}

const (
	// mostWitnessed is how many subjects' last requests are remembered, at least; at most
	// twice as many.
	mostWitnessed = 4096
	// longestWitness is the longest text that is remembered of a request.
	longestWitness = blocklist.MaxEvidence
)

// witnesses remember the last request of each subject that was counted lately. The zero value
// remembers none. It is safe for concurrent use.
type witnesses struct {
	mu         sync.Mutex
	young, old map[subject]evidence
}

// witness remembers a request that counts.
func (b *bans) witness(who subject, r *http.Request, client netip.Addr, status int) {
	b.witnesses.note(who, r, client, status, b.now())
}

func (w *witnesses) note(who subject, r *http.Request, client netip.Addr, status int, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, known := w.young[who]
	if !known {
		last = w.old[who]
		if w.young == nil || len(w.young) >= mostWitnessed {
			w.young, w.old = make(map[subject]evidence), w.young
		}
	}
	keep(&last.host, r.Host)
	keep(&last.path, originalPath(r))
	keep(&last.agent, r.UserAgent())
	if client.String() != last.client {
		last.client = client.String()
	}
	last.status, last.at = status, now
	w.young[who] = last
}

// keep copies a text of a request, whose own room is not to be held for it.
func keep(into *string, text string) {
	text = text[:min(len(text), longestWitness)]
	if *into != text {
		*into = strings.Clone(text)
	}
}

// last returns what is known of a subject's last request.
func (w *witnesses) last(who subject) evidence {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e, ok := w.young[who]; ok {
		return e
	}
	return w.old[who]
}

// public is what is kept of the evidence with a ban: the address in clear only if keys may be
// shown.
func (e *evidence) public(reason string, hits int64, showClient bool) blocklist.Evidence {
	p := blocklist.Evidence{
		Reason: reason, Host: e.host, Path: e.path, UserAgent: e.agent,
		Status: e.status, Hits: hits, At: e.at,
	}
	if showClient {
		p.Client = e.client
	}
	p.Fit()
	return p
}

// hostOf returns a host in the form of a site's name; empty if it is none.
func hostOf(host string) string {
	s, err := blocklist.ParseScope("site:" + cmp.Or(strings.ToLower(hostName(host)), " "))
	if err != nil {
		return ""
	}
	return s.Name
}

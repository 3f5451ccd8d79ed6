package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/weirhq/caddy-weir/internal/bench/gauge"
	"github.com/weirhq/caddy-weir/internal/bench/page"
)

// breaking is how long the beginning of an outage is told apart from the rest, and returning the
// same of its end.
const (
	breaking  = 500 * time.Millisecond
	returning = time.Second
)

// A phase is part of a story.
type phase struct {
	name     string
	from, to time.Duration
}

func (s *story) phases() []phase {
	all := []phase{{"before", s.from, s.broke}}
	if s.mended-s.broke > breaking {
		all = append(all, phase{"the first " + breaking.String(), s.broke, s.broke + breaking}, phase{"then", s.broke + breaking, s.mended})
	} else {
		all = append(all, phase{"meanwhile", s.broke, s.mended})
	}
	return append(all, phase{"the first " + returning.String() + " after", s.mended, s.mended + returning}, phase{"after", s.mended + returning, s.over})
}

// row tells of a phase: the requests whose clients began to wait in it.
func (s *story) row(p phase) []string {
	delays := &gauge.Delays{}
	failed, passed := 0, 0
	var within []event
	for _, e := range s.events {
		if e.since < p.from || e.since >= p.to {
			continue
		}
		within = append(within, e)
		delays.Note(e.delay())
		if e.failed() {
			failed++
		}
		if e.status == http.StatusOK {
			passed++
		}
	}
	most := 0
	for _, all := range byKey(within) {
		most = max(most, mostWithin(all, outageWindow))
	}
	allowed := float64(outageLimit*outageKeys) * float64(p.to-p.from) / float64(outageWindow)
	return []string{
		s.outage.name, p.name, fmt.Sprint(delays.Count()), micro(delays.Within(0.5)), micro(delays.Within(0.99)), micro(delays.Worst()), micro(s.latest(p)),
		fmt.Sprint(failed), fmt.Sprintf("%.2f", float64(passed)/allowed), fmt.Sprintf("%.2f", float64(most)/outageLimit),
	}
}

func micro(d time.Duration) string {
	if d >= 10*time.Millisecond {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}

func outageSection(stories []story, e effort) *page.Section {
	phases := page.Table{
		Said: fmt.Sprintf("%d clients of two nodes ask %d times a second each, whatever the answers, %s for each key, of which %d in %s may pass. Delays are what "+
			"clients wait, from when a request was due. Failed are all that were answered neither 200 nor 429. \"Passed\" is what passed altogether, \"most\" the most that "+
			"passed of one key within one window, both as multiples of the limit. Requests wait at most %s for Redis. \"Overslept\" is the longest by which one of as many goroutines "+
			"that do nothing but sleep that long, in the same moments, woke up too late: what the machine adds to a wait.",
			outageClients, outageRate, fmt.Sprintf("%d times a second", outageClients*outageRate/outageKeys), outageLimit, outageWindow, outageTimeout),
		Head: []string{"", "", "requests", "p50", "p99", "worst", "overslept", "failed", "passed", "most"},
	}
	ends := page.Table{
		Said: "How long it took from the server's return (or its successor's), as the bench sees it, until both nodes counted on Redis again, and until no key passed more than its " +
			"limit in any window. What a node let through by itself is in no other's count: that leaves the window one window later.",
		Head: []string{"", "", "away", "on Redis after", "exact after"},
	}
	curves := page.Curves{Title: "Delays while Redis is away", Says: "The longest that a request took, in each tenth of a second; Redis is away where it is shaded."}
	for i := range stories {
		s := &stories[i]
		for _, p := range s.phases() {
			phases.Rows = append(phases.Rows, s.row(p))
		}
		onRedis := "—"
		if s.onRedis >= 0 {
			onRedis = micro(s.onRedis - s.mended)
		}
		ends.Rows = append(ends.Rows, []string{s.outage.name, s.outage.says, (s.mended - s.broke).Round(time.Millisecond).String(), onRedis, micro(max(s.exact-s.mended, 0))})
		curves.Curves = append(curves.Curves, s.curve())
	}
	return &page.Section{
		Tables:   []page.Table{phases, ends},
		Pictures: []page.Picture{{File: "bench-outage.svg", Says: curves.Title, SVG: curves.SVG()}},
	}
}

// curve returns the worst delays of a story.
func (s *story) curve() page.Curve {
	const each = 100 * time.Millisecond
	c := page.Curve{Name: s.outage.name, Each: each, From: s.broke - s.from, To: s.mended - s.from}
	for _, e := range s.events {
		if e.since < s.from {
			continue
		}
		i := int((e.since - s.from) / each)
		for len(c.Points) <= i {
			c.Points = append(c.Points, 0)
		}
		c.Points[i] = max(c.Points[i], e.delay())
	}
	return c
}

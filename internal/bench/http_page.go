package main

import (
	"fmt"
	"time"

	"github.com/weirhq/caddy-weir/internal/bench/gauge"
	"github.com/weirhq/caddy-weir/internal/bench/page"
)

// of returns a number of each sample of a side.
func (t *trial) of(i int, number func(s sample) float64) []float64 {
	all := make([]float64, len(t.samples[i]))
	for n, s := range t.samples[i] {
		all[n] = number(s)
	}
	return all
}

func (t *trial) median(i int, number func(s sample) float64) float64 {
	return gauge.Over(t.of(i, number)).Median
}

func requestCPU(s sample) float64 { return s.cpu }

// cost returns what a request costs one side as a multiple of the first.
func (t *trial) cost(i int) gauge.Spread {
	return gauge.Over(gauge.Ratios(t.of(i, requestCPU), t.of(0, requestCPU)))
}

// least returns the same of the cheapest run of either side: what disturbs a run makes it dearer,
// so that it says most on a busy machine.
func (t *trial) least(i int) float64 {
	return gauge.Over(t.of(i, requestCPU)).Least / gauge.Over(t.of(0, requestCPU)).Least
}

func (s *httpScene) short() string { return spoken(s.name) }

func httpSection(all []trial, more bool) *page.Section {
	t := page.Table{
		Said: "CPU in microseconds a request, of the Caddy and of the redis-server; medians. The ratio is that of the CPU of the Caddy " +
			"to the first side's in the same round: median [least, most]. Behind it the ratio of the cheapest runs, and the aim. " +
			"Calls are those of scripts on Redis, a request.",
		Head: []string{"", "", "CPU", "ratio", "of the least", "aim", "requests/s", "p50", "p99", "CPU of Redis", "calls"},
	}
	var groups []page.Group
	for _, one := range all {
		g := page.Group{Name: one.scene.short()}
		for i, s := range one.scene.sides {
			cpu := one.median(i, requestCPU)
			row := []string{one.scene.short(), s.name, fmt.Sprintf("%.1f", cpu), "", "", "", rateText(one.median(i, func(s sample) float64 { return s.rate }))}
			b := page.Bar{Name: s.name, Value: cpu, Says: fmt.Sprintf("%.1f µs", cpu)}
			if i > 0 {
				ratio := one.cost(i)
				row[3] = fmt.Sprintf("%.3f [%.3f, %.3f]", ratio.Median, ratio.Least, ratio.Most)
				row[4] = fmt.Sprintf("%.3f", one.least(i))
				b.Ours = true
				b.Says += fmt.Sprintf(", × %.2f", ratio.Median)
			}
			if s.goal > 0 {
				row[5] = fmt.Sprintf("%.2f", s.goal)
			}
			for _, delay := range []func(s sample) float64{
				func(s sample) float64 { return float64(s.p50) },
				func(s sample) float64 { return float64(s.p99) },
			} {
				row = append(row, time.Duration(one.median(i, delay)).Round(time.Microsecond).String())
			}
			if s.redis {
				row = append(row, digits(one.median(i, func(s sample) float64 { return s.serverCPU })), digits(one.median(i, func(s sample) float64 { return s.calls })))
			} else {
				row = append(row, "", "")
			}
			t.Rows = append(t.Rows, row)
			g.Bars = append(g.Bars, b)
		}
		groups = append(groups, g)
	}
	section := &page.Section{Tables: []page.Table{t}}
	if !more {
		section.Pictures = []page.Picture{{
			File: "bench-http.svg", Says: "CPU of a Caddy for a request",
			SVG: (&page.Bars{Title: "CPU of a Caddy for a request, in microseconds", Groups: groups}).SVG(),
		}}
	}
	return section
}

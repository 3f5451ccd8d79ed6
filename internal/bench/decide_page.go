package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/caddy-weir/internal/bench/gauge"
	"github.com/weirhq/caddy-weir/internal/bench/page"
)

// series returns a number of each round.
func series(rounds []outcome, of func(o outcome) float64) []float64 {
	all := make([]float64, len(rounds))
	for i, o := range rounds {
		all[i] = of(o)
	}
	return all
}

// What is told of an outcome.
func rate(o outcome) float64      { return float64(o.Decisions) / o.Took.Seconds() }
func clientCPU(o outcome) float64 { return each(o, o.CPU) }
func serverCPU(o outcome) float64 { return each(o, o.ServerCPU) }
func allocs(o outcome) float64    { return float64(o.Allocs) / float64(o.Decisions) }
func p50(o outcome) float64       { return float64(o.P50.Nanoseconds()) / 1e3 }
func p99(o outcome) float64       { return float64(o.P99.Nanoseconds()) / 1e3 }

// each returns microseconds a decision.
func each(o outcome, d time.Duration) float64 {
	return float64(d.Nanoseconds()) / 1e3 / float64(o.Decisions)
}

func (r *result) median(i int, of func(o outcome) float64) float64 {
	return gauge.Over(series(r.rounds[i], of)).Median
}

// faster returns how many times as many decisions the first peer made as another.
func (r *result) faster(than int) gauge.Spread {
	return gauge.Over(gauge.Ratios(series(r.rounds[0], rate), series(r.rounds[than], rate)))
}

// failures returns how many calls of a peer decided nothing.
func (r *result) failures(i int) int {
	n := 0
	for _, o := range r.rounds[i] {
		n += o.Errors
	}
	return n
}

// short is the name of a contest without that of its part.
func (c contest) short() string { return spoken(c.name) }

// spoken turns a scene's name, without its part's, into words.
func spoken(scene string) string {
	_, rest, _ := strings.Cut(scene, "/")
	return strings.ReplaceAll(strings.ReplaceAll(rest, "/", ", "), "_", " ")
}

// A telling is how contests of one kind are told.
type telling struct {
	where   string // "in memory"
	picture string // the file's name
	detail  string // what stands before the table of details
	size    string // and before that of sizes
	server  bool   // whether there is one
}

// section tells contests, and how many bytes each peer keeps for a key.
func (t *telling) section(all []result, sizes map[string]float64) *page.Section {
	bars := page.Bars{Title: "Decisions a second, " + t.where}
	for i := range all {
		bars.Groups = append(bars.Groups, all[i].group())
	}
	size := page.Table{Said: t.size, Head: []string{"", "bytes"}}
	for _, p := range all[0].peers {
		if bytes, ok := sizes[p.Name]; ok {
			size.Rows = append(size.Rows, []string{p.Name, fmt.Sprintf("%.0f", bytes)})
		}
	}
	return &page.Section{
		Tables:   append(ratioTables(all), t.details(all), size),
		Pictures: []page.Picture{{File: t.picture, Says: bars.Title, SVG: bars.SVG()}},
	}
}

// ratioTables tell how many times as many decisions the first peer makes: a table for each way
// to the server, with a row for each other peer and a column for each contest.
func ratioTables(all []result) []page.Table {
	var tables []page.Table
	for len(all) > 0 {
		near := slices.IndexFunc(all, func(r result) bool { return r.contest.distance != all[0].contest.distance })
		if near < 0 {
			near = len(all)
		}
		tables = append(tables, ratioTable(all[:near]))
		all = all[near:]
	}
	tables[0].Said = "How many times as many decisions a second `" + tables[0].Head[0] +
		"` makes, which counts by its default, `sliding_window`, as others do: median [least, most] of the rounds."
	for i := range tables {
		tables[i].Head[0] = ""
	}
	return tables
}

func ratioTable(all []result) page.Table {
	peers := all[0].peers
	t := page.Table{Head: []string{peers[0].Name}}
	for i := range all {
		t.Head = append(t.Head, all[i].contest.short())
	}
	for i, p := range peers[1:] {
		row := []string{p.Name}
		for k := range all {
			s := all[k].faster(i + 1)
			row = append(row, fmt.Sprintf("%s [%s, %s]", digits(s.Median), digits(s.Least), digits(s.Most)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (t *telling) details(all []result) page.Table {
	d := page.Table{Said: t.detail, Head: []string{"", "", "decisions/s", "p50, µs", "p99, µs", "CPU, µs", "allocations"}}
	if t.server {
		d.Head = append(d.Head, "CPU of Redis, µs", "failed")
	}
	for i := range all {
		r := &all[i]
		for k, p := range r.peers {
			row := []string{
				r.contest.short(), p.Name, rateText(r.median(k, rate)), digits(r.median(k, p50)), digits(r.median(k, p99)),
				digits(r.median(k, clientCPU)), digits(r.median(k, allocs)),
			}
			if t.server {
				row = append(row, digits(r.median(k, serverCPU)), fmt.Sprint(r.failures(k)))
			}
			d.Rows = append(d.Rows, row)
		}
	}
	return d
}

// group returns bars with the rates of a contest.
func (r *result) group() page.Group {
	g := page.Group{Name: r.contest.short()}
	for i, p := range r.peers {
		s := gauge.Over(series(r.rounds[i], rate))
		g.Bars = append(g.Bars, page.Bar{
			Name: p.Name, Value: s.Median, Least: s.Least, Most: s.Most, Says: rateText(s.Median),
			Ours: strings.HasPrefix(p.Name, "weir"),
		})
	}
	return g
}

// rateText writes how many a second.
func rateText(f float64) string {
	switch {
	case f >= 1e6:
		return fmt.Sprintf("%.1f M", f/1e6)
	case f >= 1e4:
		return fmt.Sprintf("%.0f k", f/1e3)
	case f >= 1e3:
		return fmt.Sprintf("%.1f k", f/1e3)
	}
	return fmt.Sprintf("%.0f", f)
}

// digits writes a number with as many digits as matter.
func digits(f float64) string {
	switch {
	case f >= 100:
		return fmt.Sprintf("%.0f", f)
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	case f < 0.005:
		return "0"
	}
	return fmt.Sprintf("%.2f", f)
}

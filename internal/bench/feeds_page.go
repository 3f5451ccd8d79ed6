package main

import (
	"fmt"
	"time"

	"github.com/weirhq/caddy-weir/internal/bench/page"
	"github.com/weirhq/caddy-weir/internal/bench/week"
)

// megabytes writes bytes as MB.
func megabytes(n int64) string {
	switch mb := float64(n) / 1e6; {
	case mb >= 100:
		return fmt.Sprintf("%.0f", mb)
	case mb >= 10:
		return fmt.Sprintf("%.1f", mb)
	default:
		return fmt.Sprintf("%.2f", mb)
	}
}

// percent writes what part one number is of another.
func percent(part, whole int) string {
	if whole == 0 {
		return "—"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(whole))
}

// savedText writes what part of the bytes was saved; more than before are a negative part.
func savedText(without, with *week.Count) string {
	return fmt.Sprintf("%.0f %%", 100*week.Saved(without, with))
}

// late writes a delay as people say it.
func late(d time.Duration) string {
	switch {
	case d == 0:
		return "—"
	case d < 100*time.Minute:
		return fmt.Sprintf("%.0f min", d.Minutes())
	default:
		return fmt.Sprintf("%.1f h", d.Hours())
	}
}

func feedsSection(r *week.Result) *page.Section {
	return &page.Section{
		Said:   []string{feedsSummary(r)},
		Tables: []page.Table{feedsByManners(r), feedsByKind(r), feedsLate(r), feedsRefused(r)},
		Pictures: []page.Picture{{
			File: "feeds-week.svg", Says: "What a week of a feed's readers takes, with a zone for feeds and without",
			SVG: feedsPicture(r).SVG(),
		}},
	}
}

// feedsSummary is what matters, in words.
func feedsSummary(r *week.Result) string {
	all, clients := r.All(week.With)
	before, _ := r.All(week.Without)
	careless, _ := r.Of(week.Without, week.Careless)
	spared, _ := r.Of(week.With, week.Careless)
	return fmt.Sprintf("%d subscribers, %d clients, %d versions of the feed. **Of %d polite polls %d were refused, and of %d requests of readers that subscribe %d. "+
		"Of what careless clients took without the zone, %s is saved (%s of %s MB); of all bytes %s, and of the requests that reached the site %s.**",
		r.Subscribers, clients, len(r.Versions), all.PolitePolls, all.PoliteRefused, all.Joining, all.JoiningRefused,
		savedText(&careless, &spared), megabytes(careless.Bytes()-spared.Bytes()), megabytes(careless.Bytes()),
		savedText(&before, &all), percent(before.Arrived-all.Arrived, before.Arrived))
}

func feedsByManners(r *week.Result) page.Table {
	t := page.Table{
		Said: "By manners, without the zone → with it. \"At the site\" are requests that came as far as the file server. Bytes are bodies and headers of HTTP/1.1.",
		Head: []string{"", "clients", "requests", "at the site", "MB", "of it headers", "saved", "304", "refused"},
	}
	row := func(name string, clients int, without, with *week.Count) {
		t.Rows = append(t.Rows, []string{
			name, fmt.Sprint(clients), both(without.Requests, with.Requests), both(without.Arrived, with.Arrived),
			megabytes(without.Bytes()) + " → " + megabytes(with.Bytes()), megabytes(without.Head) + " → " + megabytes(with.Head),
			savedText(without, with), both(without.Same, with.Same), fmt.Sprint(with.Refused),
		})
	}
	for _, m := range []week.Manners{week.Polite, week.Hasty, week.Careless} {
		without, clients := r.Of(week.Without, m)
		with, _ := r.Of(week.With, m)
		row(m.String(), clients, &without, &with)
	}
	without, clients := r.All(week.Without)
	with, _ := r.All(week.With)
	row("all", clients, &without, &with)
	return t
}

func both(without, with int) string { return fmt.Sprintf("%d → %d", without, with) }

func feedsByKind(r *week.Result) page.Table {
	t := page.Table{
		Said: "By kind. Requests are those of one client in a day.",
		Head: []string{"", "", "clients", "requests", "whole feeds", "MB", "saved", "refused"},
	}
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		without, with := &o.Worlds[week.Without], &o.Worlds[week.With]
		each := func(n int) string {
			return digits(float64(n) / float64(o.Clients) / (r.Span.Hours() / 24))
		}
		t.Rows = append(t.Rows, []string{
			o.Kind.Name, o.Kind.Manners().String(), fmt.Sprint(o.Clients), each(without.Requests) + " → " + each(with.Requests),
			each(without.Whole) + " → " + each(with.Whole),
			megabytes(without.Bytes()) + " → " + megabytes(with.Bytes()), savedText(without, with), percent(with.Refused, with.Requests),
		})
	}
	return t
}

// feedsLate says how late news came.
func feedsLate(r *week.Result) page.Table {
	t := page.Table{
		Said: "What a reader would complain of: how long after its publication a version came, without → with. \"Missed\" is what had been out for a day when the " +
			"week ended, and had not come.",
		Head: []string{"", "", "half of them", "95 %", "the last", "missed"},
	}
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		without, with := &o.Worlds[week.Without], &o.Worlds[week.With]
		row := []string{o.Kind.Name, o.Kind.Manners().String()}
		for _, part := range []float64{0.5, 0.95, 1} {
			row = append(row, late(without.Delay(part))+" → "+late(with.Delay(part)))
		}
		t.Rows = append(t.Rows, append(row, both(without.Missed, with.Missed)))
	}
	return t
}

// feedsRefused says what became of those that were refused.
func feedsRefused(r *week.Result) page.Table {
	t := page.Table{
		Said: "Who was refused: how many polls came after a refusal, how many of them when Retry-After had passed, and how many clients gave up for good.",
		Head: []string{"", "", "refused", "polls after it", "that heeded it", "gave up"},
	}
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		if with := &o.Worlds[week.With]; with.Refused > 0 {
			t.Rows = append(t.Rows, []string{o.Kind.Name, o.Kind.Manners().String(), fmt.Sprint(with.Refused), fmt.Sprint(with.Told), percent(with.Heeded, with.Told), fmt.Sprint(with.GaveUp)})
		}
	}
	return t
}

// feedsPicture draws the bytes of each hour.
func feedsPicture(r *week.Result) *page.Lines {
	p := &page.Lines{
		Title: "A week of a feed's readers", Says: "Megabytes in each hour.", MarkSays: "the feed changes",
	}
	for day := week.Begin; day.Before(week.Begin.Add(r.Span)); day = day.Add(24 * time.Hour) {
		p.Ticks = append(p.Ticks, day.Weekday().String())
	}
	for _, at := range r.Versions {
		p.Marks = append(p.Marks, float64(at)/float64(r.Span))
	}
	for _, panel := range []struct {
		name string
		of   []week.Manners
	}{
		{"Careless clients", []week.Manners{week.Careless}},
		{"All others", []week.Manners{week.Polite, week.Hasty}},
	} {
		lines := page.Panel{Name: panel.name, Unit: " MB"}
		for _, w := range []week.World{week.Without, week.With} {
			l := page.Line{Name: w.String() + " the zone", Ours: w == week.With, Points: make([]float64, len(r.Hours[w][0]))}
			for _, m := range panel.of {
				for hour, n := range r.Hours[w][m] {
					l.Points[hour] += float64(n) / 1e6
				}
			}
			lines.Lines = append(lines.Lines, l)
		}
		p.Panels = append(p.Panels, lines)
	}
	return p
}

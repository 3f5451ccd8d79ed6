package page

import (
	"fmt"
	"math"
	"strings"
)

// A Lines is a picture of panels below one another, each with several lines over the same time, on
// a scale from nothing upwards.
type Lines struct {
	Title string
	Says  string // what the lines are
	// Ticks are the words below the time, evenly apart: each begins a part of it.
	Ticks []string
	// Marks are when something happened, as parts of the whole time, and MarkSays what.
	Marks    []float64
	MarkSays string
	Panels   []Panel
}

// A Panel has lines of one scale.
type Panel struct {
	Name string
	// Unit stands behind the numbers of the scale.
	Unit  string
	Lines []Line
}

// A Line is points that are evenly apart.
type Line struct {
	Name   string
	Points []float64
	Ours   bool // stands out
}

const (
	linesLeft  = 70
	linesRight = width - 10
)

// SVG draws the lines.
func (p *Lines) SVG() string {
	var b strings.Builder
	y := 24
	text(&b, 0, y, "head", "start", p.Title)
	text(&b, 0, y+20, "note", "start", p.Says)
	if p.MarkSays != "" && len(p.Marks) > 0 {
		fmt.Fprintf(&b, `<path class="mark" d="M5 %dv12"/>`+"\n", y+29)
		text(&b, 16, y+40, "note", "start", p.MarkSays)
		y += 20
	}
	y += 34
	for i := range p.Panels {
		p.panel(&b, &p.Panels[i], y)
		y += high + 58
	}
	return frame(b.String(), y, p.Title)
}

func (p *Lines) panel(b *strings.Builder, panel *Panel, y int) {
	text(b, 0, y+16, "head", "start", panel.Name)
	p.legend(b, panel, y+16)
	top := y + 28
	most := 0.0
	for _, l := range panel.Lines {
		for _, v := range l.Points {
			most = max(most, v)
		}
	}
	step := stepOf(most)
	full := max(math.Ceil(most/step), 1) * step
	for v := 0.0; v <= full*1.001; v += step {
		at := float64(top+high) - high*v/full
		fmt.Fprintf(b, `<path class="axis" d="M%d %.1fH%d"/>`+"\n", linesLeft, at, linesRight)
		text(b, linesLeft-8, int(at)+4, "note", "end", fmt.Sprintf("%.6g", v)+panel.Unit)
	}
	x := func(part float64) float64 { return linesLeft + (linesRight-linesLeft)*part }
	for i, word := range p.Ticks {
		text(b, int(x(float64(i)/float64(len(p.Ticks)))), top+high+16, "note", "start", word)
	}
	for _, part := range p.Marks {
		fmt.Fprintf(b, `<path class="mark" d="M%.1f %dV%d"/>`+"\n", x(part), top, top+high)
	}
	for _, l := range panel.Lines {
		path, pen := "", "M"
		for i, v := range l.Points {
			path += fmt.Sprintf("%s%.1f %.1f", pen, x((float64(i)+0.5)/float64(len(l.Points))), float64(top+high)-high*v/full)
			pen = "L"
		}
		fmt.Fprintf(b, `<path class="%s" d="%s"/>`+"\n", l.class(), path)
	}
}

func (l *Line) class() string {
	if l.Ours {
		return "line"
	}
	return "other"
}

// legend names the lines at the right, in a row.
func (p *Lines) legend(b *strings.Builder, panel *Panel, y int) {
	const room = 150
	x := linesRight - room*len(panel.Lines)
	for i := range panel.Lines {
		l := &panel.Lines[i]
		fmt.Fprintf(b, `<path class="%s" d="M%d %dh18"/>`+"\n", l.class(), x, y-4)
		text(b, x+24, y, "note", "start", l.Name)
		x += room
	}
}

// stepOf is a round number of which most has two to four.
func stepOf(most float64) float64 {
	if most <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(most/2)))
	switch n := most / 2 / unit; {
	case n >= 5:
		return 5 * unit
	case n >= 2:
		return 2 * unit
	}
	return unit
}

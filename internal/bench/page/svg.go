package page

import (
	"fmt"
	"html"
	"math"
	"strings"
	"time"
)

// style gives pictures the colours of the page that they stand on, light or dark.
const style = `<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
.head { font-weight: 600 }
.note { fill: #59636e }
.bar { fill: #8c959f }
.ours { fill: #0969da }
.line { fill: none; stroke: #0969da; stroke-width: 1.5 }
.other { fill: none; stroke: #8c959f; stroke-width: 1.5 }
.mark { fill: none; stroke: #cf222e; stroke-width: 1; stroke-dasharray: 2 3 }
.axis { stroke: #d1d9e0; stroke-width: 1 }
.down { fill: #cf222e; opacity: .14 }
.range { stroke: #1f2328; stroke-width: 1 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.note { fill: #9198a1 }
.bar { fill: #656c76 }
.ours { fill: #4493f8 }
.line { stroke: #4493f8 }
.other { stroke: #848d97 }
.mark { stroke: #f85149 }
.axis { stroke: #3d444d }
.down { fill: #f85149; opacity: .22 }
.range { stroke: #e6edf3 }
}
</style>`

// A Bars is a picture of bars, in groups that have a scale each.
type Bars struct {
	Title  string
	Groups []Group
}

// A Group is bars of one scale under a name.
type Group struct {
	Name string
	Bars []Bar
}

// A Bar is as long as its value; a line shows the range, if there is one.
type Bar struct {
	Name        string
	Value       float64
	Least, Most float64
	Says        string // the value as text
	Ours        bool   // stands out
}

const (
	width    = 760
	nameRoom = 210 // before a bar
	saysRoom = 150 // behind it
	rowRoom  = 20
)

// SVG draws the bars.
func (p *Bars) SVG() string {
	var b strings.Builder
	y := 24
	text(&b, 0, y, "head", "start", p.Title)
	for _, g := range p.Groups {
		y += 30
		text(&b, 0, y, "head", "start", g.Name)
		longest := 0.0
		for _, bar := range g.Bars {
			longest = max(longest, bar.Value, bar.Most)
		}
		scale := 0.0
		if longest > 0 {
			scale = (width - nameRoom - saysRoom) / longest
		}
		for _, bar := range g.Bars {
			y += rowRoom
			g.bar(&b, bar, y, scale)
		}
	}
	return frame(b.String(), y+16, p.Title)
}

func (Group) bar(b *strings.Builder, bar Bar, y int, scale float64) {
	class := "bar"
	if bar.Ours {
		class = "ours"
	}
	text(b, nameRoom-8, y, "", "end", bar.Name)
	fmt.Fprintf(b, `<rect class="%s" x="%d" y="%d" width="%.1f" height="13" rx="2"/>`+"\n", class, nameRoom, y-11, max(bar.Value*scale, 1))
	end := bar.Value
	if bar.Most > bar.Least {
		end = max(end, bar.Most)
		fmt.Fprintf(b, `<path class="range" d="M%.1f %dH%.1f"/>`+"\n", nameRoom+bar.Least*scale, y-4, nameRoom+bar.Most*scale)
	}
	text(b, nameRoom+int(end*scale)+8, y, "note", "start", bar.Says)
}

// A Curve is one thing over time in a picture of several.
type Curve struct {
	Name string
	// Each is how far apart the points are; the first is at 0.
	Each   time.Duration
	Points []time.Duration // 0: nothing there
	// From and To are when something was amiss.
	From, To time.Duration
}

// A Curves is a picture of curves below one another, on a scale of powers of ten.
type Curves struct {
	Title  string
	Says   string // what the points are
	Curves []Curve
}

// The scale of curves.
const (
	lowest  = 100 * time.Microsecond
	decades = 4 // up to a second
	high    = 84
)

// SVG draws the curves.
func (p *Curves) SVG() string {
	var b strings.Builder
	y := 24
	text(&b, 0, y, "head", "start", p.Title)
	text(&b, 0, y+20, "note", "start", p.Says)
	y += 34
	for _, c := range p.Curves {
		c.draw(&b, y)
		y += high + 46
	}
	return frame(b.String(), y, p.Title)
}

func (c *Curve) draw(b *strings.Builder, y int) {
	const left = 70
	whole := max(c.Each*time.Duration(len(c.Points)), time.Second)
	x := func(t time.Duration) float64 { return left + (width-left-10)*t.Seconds()/whole.Seconds() }
	text(b, 0, y+16, "head", "start", c.Name)
	top := y + 24
	if c.To > c.From {
		fmt.Fprintf(b, `<rect class="down" x="%.1f" y="%d" width="%.1f" height="%d"/>`+"\n", x(c.From), top, x(c.To)-x(c.From), high)
	}
	mark := lowest
	for i := range decades + 1 {
		at := top + high - i*high/decades
		fmt.Fprintf(b, `<path class="axis" d="M%d %dH%d"/>`+"\n", left, at, width-10)
		text(b, left-8, at+4, "note", "end", mark.String())
		mark *= 10
	}
	for s := time.Duration(0); s <= whole; s += time.Second {
		text(b, int(x(s)), top+high+16, "note", "middle", s.String())
	}
	path, pen := "", "M"
	for i, point := range c.Points {
		if point <= 0 {
			pen = "M"
			continue
		}
		path += fmt.Sprintf("%s%.1f %.1f", pen, x(c.Each*time.Duration(i)), float64(top+high)-height(point))
		pen = "L"
	}
	fmt.Fprintf(b, `<path class="line" d="%s"/>`+"\n", path)
}

// height returns how far up the scale a delay lies.
func height(d time.Duration) float64 {
	up := math.Log10(float64(d)/float64(lowest)) / decades
	return high * min(max(up, 0), 1)
}

func text(b *strings.Builder, x, y int, class, anchor, says string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" class="%s" text-anchor="%s">%s</text>`+"\n", x, y, class, anchor, html.EscapeString(says))
}

func frame(inside string, height int, title string) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`,
		width, height, width, height, html.EscapeString(title)) + "\n" + style + "\n" + inside + "</svg>\n"
}

package main

import (
	"fmt"
	"io"
	"time"
)

// A progress tells on one line after the other what is measured, and about how long the rest
// takes.
type progress struct {
	out   io.Writer
	parts []expected
	at    int // in parts
	began time.Time
	done  int
	steps int
	told  time.Time
}

// An expected is a part and how long it should take.
type expected struct {
	part string
	cost time.Duration
}

// expect adds a part to what is to come.
func (p *progress) expect(part string, cost time.Duration) {
	p.parts = append(p.parts, expected{part, cost})
}

// begin says that a part begins.
func (p *progress) begin(part string) {
	for i := range p.parts {
		if p.parts[i].part == part {
			p.at = i
		}
	}
	p.began, p.done, p.steps = time.Now(), 0, 0
}

// of says how many steps the part has.
func (p *progress) of(steps int) { p.steps = steps }

// step says what is measured next. It tells of it at most once a second.
func (p *progress) step(what string) {
	p.done++
	p.tell(what)
}

// tell says the same of something that is no step.
func (p *progress) tell(what string) {
	if time.Since(p.told) < time.Second {
		return
	}
	p.told = time.Now()
	left := p.left(time.Since(p.began))
	fmt.Fprintf(p.out, "%s: step %d of %d, about %s left\n", what, p.done, p.steps, left.Round(time.Second))
}

// left estimates how long the rest takes: what was expected, and once a tenth of the part is
// done, what that took.
func (p *progress) left(passed time.Duration) time.Duration {
	if p.at >= len(p.parts) {
		return 0
	}
	rest := max(p.parts[p.at].cost-passed, 0)
	if p.steps > 0 && p.done*10 >= p.steps {
		rest = passed * time.Duration(p.steps-p.done) / time.Duration(p.done)
	}
	for _, later := range p.parts[p.at+1:] {
		rest += later.cost
	}
	return rest
}

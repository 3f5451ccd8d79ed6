package preview

import (
	"strings"

	"github.com/weirhq/caddy-weir/blocklist"
)

// shortest is how long the longest piece without stars of a pattern must be: shorter ones would be
// found everywhere, and have a look at every byte.
const shortest = 4

// A Finder finds the family of a user agent among many patterns at once, and passes over most of a
// text that has none: the algorithm of Wu and Manber (A fast algorithm for multi-pattern searching,
// University of Arizona, TR-94-17), which looks at pairs of bytes and skips as far as no pattern can
// begin. It looks for the longest piece of each pattern; where that is found the whole pattern is
// tried. Patterns that do not begin with a star are tried by their first byte instead. It is safe for
// concurrent use.
type Finder struct {
	// heads are the patterns that begin with some byte.
	heads [256][]pattern
	// patterns are those that begin with a star.
	patterns []pattern
	// least is how much of each piece counts for the search: as much as the shortest one has.
	least int
	// steps says for each pair of bytes how far the next one is that may end a piece's beginning; or
	// from ends0 on which of ends it may end itself.
	steps [pairs]uint16
	// ends are lists of patterns whose beginnings end alike.
	ends [][]int
}

// ends0 is the first value of steps that is no distance.
const ends0 = 256

// A pattern is one of a family. Where its literal does not stand it need not be tried.
type pattern struct {
	family  string
	literal string
	whole   blocklist.Pattern
}

func (p *pattern) match(agent, from string) bool {
	return strings.HasPrefix(from, p.literal) && p.whole.Match([]byte(agent))
}

// pairs is how many values a pair of bytes is brought down to.
const pairs = 1 << 12

func pair(a, b byte) uint16 { return (uint16(a)<<4 ^ uint16(b)) % pairs }

// build prepares the search.
func (f *Finder) build() {
	if len(f.patterns) == 0 {
		return
	}
	f.least = ends0 - 1
	for _, p := range f.patterns {
		f.least = min(f.least, len(p.literal))
	}
	for i := range f.steps {
		f.steps[i] = uint16(f.least - 1)
	}
	last := f.least - 1
	for _, p := range f.patterns {
		for at := 1; at < last; at++ {
			h := pair(p.literal[at-1], p.literal[at])
			f.steps[h] = min(f.steps[h], uint16(last-at))
		}
	}
	for i, p := range f.patterns {
		h := pair(p.literal[last-1], p.literal[last])
		if f.steps[h] < ends0 {
			f.steps[h] = ends0 + uint16(len(f.ends))
			f.ends = append(f.ends, nil)
		}
		list := &f.ends[f.steps[h]-ends0]
		*list = append(*list, i)
	}
}

// Family returns the name of the family that a user agent is of: of several the one that it names
// first. It is empty if there is none. It allocates nothing for an agent of none.
func (f *Finder) Family(agent string) string {
	if agent == "" {
		return ""
	}
	heads := f.heads[agent[0]]
	for i := range heads {
		if heads[i].match(agent, agent) {
			return heads[i].family
		}
	}
	if f.least == 0 {
		return ""
	}
	for at := f.least - 1; at < len(agent); {
		step := f.steps[pair(agent[at-1], agent[at])]
		if step < ends0 {
			at += int(step)
			continue
		}
		from := agent[at+1-f.least:]
		for _, i := range f.ends[step-ends0] {
			if p := &f.patterns[i]; p.match(agent, from) {
				return p.family
			}
		}
		at++
	}
	return ""
}

package blocklist

import "hash/maphash"

// An index finds the few rules that can match a request, so that a request is not
// held against each of them. Every rule is found in one way: by its agents, by the
// literal bytes in the patterns of one of its fields, by its addresses, or, when it has none
// of these, always.
type index struct {
	ranges rangeIndex
	texts  []*textIndex
	agents agentIndex
	always []int32
	// groups are the rules that texts find by the same bytes. A text may hold those
	// bytes a thousand times, and thousands of rules may ask for them: so that the one is not
	// multiplied by the other, groups are gathered first, and their rules after that.
	groups [][]int32
}

// find notes all candidates for the request.
func (ix *index) find(r *Request, s *slots, sc *scratch) {
	ix.ranges.find(r.Client, sc)
	for _, t := range ix.texts {
		for _, value := range sc.values(r, s, t.slot) {
			t.find(value, sc)
		}
	}
	if len(ix.agents.label) > 0 {
		for _, value := range sc.values(r, s, ix.agents.slot) {
			ix.agents.find(value, sc)
		}
	}
	for _, g := range sc.groups.numbers {
		for _, id := range ix.groups[g] {
			sc.candidates.add(id)
		}
	}
	sc.groups.clear()
	for _, id := range ix.always {
		sc.candidates.add(id)
	}
}

// newIndex builds the index and tells the rules that are not found by their addresses
// to look at them.
func newIndex(rules []*compiled, s *slots) *index {
	ix := new(index)
	bySlot := make(map[int]*textIndex)
	for id, c := range rules {
		best := c.selective()
		switch {
		case c.agents != nil:
			ix.agents.slot = s.of(userAgent)
			ix.agents.add(ix, int32(id), c.agents)
		case best != nil:
			t := bySlot[best.slot]
			if t == nil {
				t = &textIndex{slot: best.slot}
				bySlot[best.slot] = t
				ix.texts = append(ix.texts, t)
			}
			t.entries = append(t.entries, entry{int32(id), best.globs})
		case c.ranges != nil:
			ix.ranges.add(int32(id), c.ranges)
			continue
		default:
			ix.always = append(ix.always, int32(id))
		}
		if c.ranges != nil {
			c.within = new(Prefixes)
			for _, p := range c.ranges {
				c.within.trie.Insert(p)
			}
		}
	}
	ix.ranges.build()
	ix.agents.build()
	for _, t := range ix.texts {
		t.build(ix)
	}
	return ix
}

// selective returns the condition whose patterns have the most literal bytes to be
// found by; nil if no condition can be found by all of its patterns.
func (c *compiled) selective() *condition {
	var best *condition
	most := gramLen - 1
	for i := range c.conditions {
		least := MaxPattern + 1
		for _, g := range c.conditions[i].globs {
			least = min(least, g.literal())
		}
		if least > most {
			best, most = &c.conditions[i], least
		}
	}
	return best
}

// literal returns how many bytes in a row a text must have to match; for a pattern
// without stars, which is found as a whole, more than any other can have.
func (g *glob) literal() int {
	if g.exact() {
		return MaxPattern
	}
	longest := 0
	for _, piece := range g.pieces {
		longest = max(longest, len(piece))
	}
	return longest
}

// gramLen is the length of the byte sequences by which patterns are found.
const gramLen = 4

// textIndex finds rules by the value of one slot: a pattern without stars by a hash of
// the whole value, any other by the rarest of the grams (gramLen bytes in a row) that a
// value must contain to match it.
type textIndex struct {
	slot    int
	entries []entry // until it is built

	// exact and grams hold the numbers of the index's groups.
	seed  maphash.Seed
	exact map[uint64]int32
	grams map[uint32]int32
	// filter has a bit set for the hash of each gram, and few others: most
	// positions of a value cost one look at it.
	filter []uint64
	shift  uint
}

type entry struct {
	id    int32
	globs []*glob
}

func (t *textIndex) build(ix *index) {
	t.seed = maphash.MakeSeed()
	t.exact = make(map[uint64]int32)
	t.grams = make(map[uint32]int32)
	common := make(map[uint32]int)
	for _, e := range t.entries {
		for _, g := range e.globs {
			if !g.exact() {
				g.eachGram(func(gram uint32) { common[gram]++ })
			}
		}
	}
	for _, e := range t.entries {
		for _, g := range e.globs {
			if g.exact() {
				hash := maphash.Bytes(t.seed, g.pieces[0])
				join(ix, t.exact, hash, e.id)
				continue
			}
			var rarest uint32
			count := 0
			g.eachGram(func(gram uint32) {
				if n := common[gram]; count == 0 || n < count {
					rarest, count = gram, n
				}
			})
			join(ix, t.grams, rarest, e.id)
		}
	}
	t.entries = nil
	bits := uint(10)
	for bits < 31 && 1<<bits < 16*len(t.grams) {
		bits++
	}
	t.filter, t.shift = make([]uint64, 1<<(bits-6)), 32-bits
	for gram := range t.grams {
		at := t.hash(gram)
		t.filter[at/64] |= 1 << (at % 64)
	}
}

// join puts a rule into the group of what it is found by.
func join[K comparable](ix *index, groups map[K]int32, by K, id int32) {
	g, found := groups[by]
	if !found {
		g = int32(len(ix.groups))
		groups[by] = g
		ix.groups = append(ix.groups, nil)
	}
	ix.groups[g] = append(ix.groups[g], id)
}

// eachGram calls f for every gram of the pattern.
func (g *glob) eachGram(f func(uint32)) {
	for _, piece := range g.pieces {
		var gram uint32
		for i, c := range piece {
			if gram = gram<<8 | uint32(c); i >= gramLen-1 {
				f(gram)
			}
		}
	}
}

// hash spreads grams over the filter: the golden ratio's multiplicative hash (Knuth, The
// Art of Computer Programming, vol. 3, 6.4).
func (t *textIndex) hash(gram uint32) uint32 { return gram * 0x9e3779b1 >> t.shift }

func (t *textIndex) find(value []byte, sc *scratch) {
	if len(t.exact) > 0 {
		if g, found := t.exact[maphash.Bytes(t.seed, value)]; found {
			sc.groups.add(g)
		}
	}
	if len(t.grams) == 0 {
		return
	}
	var gram uint32
	for i, c := range value {
		gram = gram<<8 | uint32(c)
		if i < gramLen-1 {
			continue
		}
		if at := t.hash(gram); t.filter[at/64]&(1<<(at%64)) == 0 {
			continue
		}
		if g, found := t.grams[gram]; found {
			sc.groups.add(g)
		}
	}
}

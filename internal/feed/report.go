package feed

import (
	"cmp"
	"slices"
	"time"
)

// A Sum adds up the conduct of several readers.
type Sum struct {
	// Readers are pairs of reader and feed.
	Readers int
	// Requests, and what became of them, as in a [Conduct].
	Requests, Unconditional, Early, Refused, NotModified int64
	Bytes                                                int64
	// Since is when the first of them was first seen.
	Since time.Time
}

func (s *Sum) add(c *Conduct) {
	if s.Readers == 0 || c.Since.Before(s.Since) {
		s.Since = c.Since
	}
	s.Readers++
	s.Requests += c.Requests
	s.Unconditional += c.Unconditional
	s.Early += c.Early
	s.Refused += c.Refused
	s.NotModified += c.NotModified
	s.Bytes += c.Bytes
}

// A FamilySum is the sum of all readers of one family of agents, see [Family].
type FamilySum struct {
	Family string
	Sum
}

// Total adds up all readers, and those of each family: the families with the most bytes first.
func Total(all []Conduct) (total Sum, families []FamilySum) {
	index := make(map[string]int)
	for i := range all {
		c := &all[i]
		total.add(c)
		family := Family(c.Agent)
		at, known := index[family]
		if !known {
			at = len(families)
			index[family] = at
			families = append(families, FamilySum{Family: family})
		}
		families[at].add(c)
	}
	slices.SortFunc(families, func(a, b FamilySum) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Family, b.Family))
	})
	return total, families
}

// orders are what readers can be sorted by, the worst first.
var orders = map[string]func(c *Conduct) int64{
	"bytes":         func(c *Conduct) int64 { return c.Bytes },
	"requests":      func(c *Conduct) int64 { return c.Requests },
	"unconditional": func(c *Conduct) int64 { return c.Unconditional },
	"refused":       func(c *Conduct) int64 { return c.Refused },
	"early":         func(c *Conduct) int64 { return c.Early },
	"score":         func(c *Conduct) int64 { return -int64(c.Score()) },
	"last":          func(c *Conduct) int64 { return c.Last.UnixNano() },
}

// Orders are the words that [Sort] knows.
var Orders = []string{"bytes", "requests", "unconditional", "refused", "early", "score", "last"}

// Sort sorts readers by one of the [Orders], the worst, or the latest, first.
func Sort(all []Conduct, by string) {
	key := orders[by]
	slices.SortFunc(all, func(a, b Conduct) int {
		return cmp.Or(
			cmp.Compare(key(&b), key(&a)), cmp.Compare(b.Requests, a.Requests),
			cmp.Compare(a.Key, b.Key), cmp.Compare(a.Feed, b.Feed),
		)
	})
}

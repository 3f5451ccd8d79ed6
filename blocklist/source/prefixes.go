package source

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sort"
	"strings"

	"github.com/weirhq/caddy-weir/blocklist"
)

// maxPieces is how many prefixes one list may gain by what is cut out of it.
const maxPieces = 1 << 16

// An entry is one prefix of a list.
type entry struct {
	prefix netip.Prefix
	until  int64 // nanoseconds since the epoch; forever if the list names no end
	order  int32 // its place in the list, where that matters
	set    int16 // the set it is in, of a list that has several
	allow  bool  // an exception
}

// forever is the end of what has none.
const forever = int64(1<<63 - 1)

// comparePrefixes sorts a range before all that is in it, IPv4 before IPv6.
func comparePrefixes(a, b netip.Prefix) int {
	if c := a.Addr().Compare(b.Addr()); c != 0 {
		return c
	}
	return cmp.Compare(a.Bits(), b.Bits())
}

// covers reports whether all of b is in a.
func covers(a, b netip.Prefix) bool { return a.Bits() <= b.Bits() && a.Contains(b.Addr()) }

// normalise sorts the entries, of one prefix keeps that which lasts longest, and
// drops those within another that lasts as long. It reuses the slice.
func normalise(entries []entry) []entry {
	byPlace := func(a, b entry) int {
		if c := comparePrefixes(a.prefix, b.prefix); c != 0 {
			return c
		}
		return cmp.Compare(b.until, a.until)
	}
	// Most lists come sorted.
	if !slices.IsSortedFunc(entries, byPlace) {
		slices.SortFunc(entries, byPlace)
	}
	kept := entries[:0]
	var around []entry // those kept that cover the last one, widest first
	for _, e := range entries {
		for len(around) > 0 && !covers(around[len(around)-1].prefix, e.prefix) {
			around = around[:len(around)-1]
		}
		// The inner one of those around always lasts longer, or it would not be there.
		if n := len(around); n > 0 && around[n-1].until >= e.until {
			continue
		}
		kept = append(kept, e)
		around = append(around, e)
	}
	return kept
}

// except takes the exceptions out of the entries. By order, the first entry of the list
// that holds an address decides about it; otherwise the narrowest does, and of
// two alike the last. What comes back is no exception and not yet normal.
func except(entries []entry, byOrder bool, c *cutter) ([]entry, error) {
	slices.SortStableFunc(entries, func(a, b entry) int {
		if c := comparePrefixes(a.prefix, b.prefix); c != 0 {
			return c
		}
		if byOrder {
			return cmp.Compare(a.order, b.order)
		}
		return cmp.Compare(b.order, a.order)
	})
	entries = slices.CompactFunc(entries, func(a, b entry) bool { return a.prefix == b.prefix })
	if byOrder {
		decide(entries)
	}
	var out []entry
	var holes []netip.Prefix
	for i, e := range entries {
		if e.allow {
			continue
		}
		holes = holes[:0]
		for j := i + 1; j < len(entries) && covers(e.prefix, entries[j].prefix); j++ {
			if inner := entries[j]; inner.allow && (len(holes) == 0 || !covers(holes[len(holes)-1], inner.prefix)) {
				holes = append(holes, inner.prefix)
			}
		}
		for _, piece := range c.cut(e.prefix, holes) {
			e.prefix = piece
			out = append(out, e)
		}
	}
	if c.spent {
		return nil, errors.New("has more exceptions than can be cut out of its ranges")
	}
	return out, nil
}

// decide gives each entry the verdict of the first in the list of all that are around it.
func decide(entries []entry) {
	var around []entry
	for i := range entries {
		e := &entries[i]
		for len(around) > 0 && !covers(around[len(around)-1].prefix, e.prefix) {
			around = around[:len(around)-1]
		}
		if n := len(around); n > 0 && around[n-1].order < e.order {
			e.order, e.allow, e.until = around[n-1].order, around[n-1].allow, around[n-1].until
		}
		around = append(around, *e)
	}
}

// A cutter takes holes out of the prefixes of a list, as long as it may make more pieces.
type cutter struct {
	left   int
	spent  bool // a prefix would have needed more
	pieces []netip.Prefix
}

// cut returns what is left of a prefix without the holes, which are in it, sorted, and
// none in another. If that would be too many pieces nothing is left: rather too little
// is blocked than too much. The result is good until the next call.
func (c *cutter) cut(p netip.Prefix, holes []netip.Prefix) []netip.Prefix {
	c.pieces = c.pieces[:0]
	if len(holes) == 0 {
		c.pieces = append(c.pieces, p)
		return c.pieces
	}
	c.split(p, holes)
	if len(c.pieces) > c.left {
		c.spent = true
		return nil
	}
	c.left -= len(c.pieces)
	return c.pieces
}

func (c *cutter) split(p netip.Prefix, holes []netip.Prefix) {
	switch {
	case len(holes) == 0:
		c.pieces = append(c.pieces, p)
		return
	case holes[0].Bits() <= p.Bits() || len(c.pieces) > c.left:
		return
	}
	low, high := halves(p)
	n := sort.Search(len(holes), func(i int) bool { return holes[i].Addr().Compare(high.Addr()) >= 0 })
	c.split(low, holes[:n])
	c.split(high, holes[n:])
}

// halves returns the two prefixes, one bit longer, that make up p.
func halves(p netip.Prefix) (low, high netip.Prefix) {
	bits := p.Bits() + 1
	raw := p.Addr().AsSlice()
	raw[(bits-1)/8] |= 0x80 >> ((bits - 1) % 8)
	addr, _ := netip.AddrFromSlice(raw)
	return netip.PrefixFrom(p.Addr(), bits), netip.PrefixFrom(addr, bits)
}

// last returns the last address of a prefix.
func last(p netip.Prefix) netip.Addr {
	raw := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(raw)*8; bit++ {
		raw[bit/8] |= 0x80 >> (bit % 8)
	}
	addr, _ := netip.AddrFromSlice(raw)
	return addr
}

// between returns the prefixes that make up all addresses from one to another.
func between(from, to netip.Addr) ([]netip.Prefix, error) {
	from, to = blocklist.Plain(from), blocklist.Plain(to)
	if from.BitLen() != to.BitLen() || to.Less(from) {
		return nil, errors.New("must go from an address to a higher one of its kind")
	}
	var all []netip.Prefix
	for {
		p := netip.PrefixFrom(from, from.BitLen())
		for p.Bits() > 0 {
			wider := netip.PrefixFrom(from, p.Bits()-1).Masked()
			if wider.Addr() != from || to.Less(last(wider)) {
				break
			}
			p = wider
		}
		all = append(all, p)
		end := last(p)
		if end == to {
			return all, nil
		}
		from = end.Next()
	}
}

// parseEntry reads what a list may name: an address, a CIDR range, or two addresses with
// a dash between them.
func parseEntry(text string) ([]netip.Prefix, error) {
	if low, high, found := strings.Cut(text, "-"); found {
		from, err1 := netip.ParseAddr(strings.TrimSpace(low))
		to, err2 := netip.ParseAddr(strings.TrimSpace(high))
		if err1 != nil || err2 != nil {
			return nil, errors.New("must be an address, a CIDR range or two addresses with a dash between them")
		}
		return between(from, to)
	}
	p, err := blocklist.ParsePrefix(text)
	if err != nil {
		// The error begins with the text, which is reported anyway.
		return nil, errors.New(strings.TrimPrefix(err.Error(), fmt.Sprintf("%q: ", text)))
	}
	return []netip.Prefix{p}, nil
}

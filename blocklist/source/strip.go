package source

import (
	"net/netip"
	"slices"
	"sort"
)

// bogons are what [Bogons] returns.
var bogons = func() []netip.Prefix {
	var all []netip.Prefix
	for _, s := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
		"192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
		"::/127", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
	} {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}()

// Bogons returns the ranges that are nobody's on the public internet and somebody's at
// home: loopback, private, link-local, shared, benchmarking, multicast and reserved ones,
// after the registries of special-purpose addresses (RFC 6890). Lists of unused
// addresses name them all; blocking them would block health checks, proxies in front
// and the people in the office. Those set aside for documentation are not among them:
// nobody has one, and examples may block them.
func Bogons() []netip.Prefix { return slices.Clone(bogons) }

// Strip takes the protected ranges out of the prefixes, exactly: a prefix that contains a
// protected address is split around it, not dropped. It returns what is left, sorted,
// without what is within another, and what was taken away. A list may grow by 65,536
// pieces; prefixes that would need more are taken away whole.
//
// The order of both arguments does not matter, and neither is changed. IPv4 in IPv6
// (::ffff:10.0.0.0/104) is IPv4.
func Strip(prefixes, protected []netip.Prefix) (kept, stripped []netip.Prefix) {
	entries := make([]entry, 0, len(prefixes))
	for _, p := range prefixes {
		if p = plainPrefix(p); p.IsValid() {
			entries = append(entries, entry{prefix: p, until: forever})
		}
	}
	entries, stripped = strip(normalise(entries), protected)
	kept = make([]netip.Prefix, len(entries))
	for i, e := range entries {
		kept[i] = e.prefix
	}
	return kept, stripped
}

// strip does what [Strip] says to entries that are normal, and keeps them so.
func strip(entries []entry, protected []netip.Prefix) (kept []entry, stripped []netip.Prefix) {
	guards := ranges(protected)
	c := cutter{left: maxPieces}
	kept = make([]entry, 0, len(entries))
	for _, e := range entries {
		holes, whole := overlapping(e.prefix, guards)
		if whole {
			stripped = append(stripped, e.prefix)
			continue
		}
		pieces := c.cut(e.prefix, holes)
		if len(pieces) == 0 {
			stripped = append(stripped, e.prefix)
			continue
		}
		stripped = append(stripped, holes...)
		for _, piece := range pieces {
			e.prefix = piece
			kept = append(kept, e)
		}
	}
	// Entries that lie within others, which end sooner, were cut alike.
	return normalise(kept), ranges(stripped)
}

// ranges sorts prefixes and drops those within others. It changes nothing it is given.
func ranges(prefixes []netip.Prefix) []netip.Prefix {
	all := make([]netip.Prefix, 0, len(prefixes))
	for _, p := range prefixes {
		if p = plainPrefix(p); p.IsValid() {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, comparePrefixes)
	kept := all[:0]
	for _, p := range all {
		if n := len(kept); n == 0 || !covers(kept[n-1], p) {
			kept = append(kept, p)
		}
	}
	return kept
}

// plainPrefix gives a prefix its one form; the zero prefix is that of what is none.
func plainPrefix(p netip.Prefix) netip.Prefix {
	if !p.IsValid() {
		return netip.Prefix{}
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked()
}

// overlapping returns the guards that are in p, or says that all of p is in one. Guards
// are sorted, and none is in another.
func overlapping(p netip.Prefix, guards []netip.Prefix) (in []netip.Prefix, whole bool) {
	n := sort.Search(len(guards), func(i int) bool { return guards[i].Addr().Compare(p.Addr()) > 0 })
	if n > 0 && covers(guards[n-1], p) {
		return nil, true
	}
	// One that begins where p does and is narrower is in p too.
	if n > 0 && guards[n-1].Addr() == p.Addr() {
		n--
	}
	end := n
	for end < len(guards) && p.Contains(guards[end].Addr()) {
		end++
	}
	return guards[n:end], false
}

package blocklist

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/gaissmai/bart"
)

// nat64 is the well-known prefix of RFC 6052, under which a translator presents the
// whole IPv4 internet to an IPv6 server.
var nat64 = netip.PrefixFrom(netip.AddrFrom16([16]byte{0x00, 0x64, 0xff, 0x9b}), 96)

// Plain gives every form of one address the same value: IPv4 in IPv6 (::ffff:192.0.2.1 and
// 64:ff9b::192.0.2.1) is IPv4, and zones (fe80::1%eth0) are gone.
func Plain(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if nat64.Contains(a) {
		b := a.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}

// ParsePrefix reads an address, which stands for itself, or a CIDR range. Bits after
// the prefix are dropped, and so is a zone. An IPv4 address in IPv6 form becomes what it
// is; a range of those that reaches beyond them (shorter than /96) is an error, since
// it would cover every IPv4 address or none. The whole of 64:ff9b::/96, which is found in
// lists of unused ranges, stays what it is, and so no address is in it: see [Plain].
func ParsePrefix(s string) (netip.Prefix, error) {
	host, length, ranged := strings.Cut(s, "/")
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q: must be an address or a CIDR range", s)
	}
	addr = addr.WithZone("") // which no range may have
	bits := addr.BitLen()
	if ranged {
		n, err := strconv.ParseUint(length, 10, 8)
		if err != nil || int(n) > bits || length != strconv.Itoa(int(n)) {
			return netip.Prefix{}, fmt.Errorf("%q: must have a length from 0 to %d after the slash", s, bits)
		}
		bits = int(n)
	}
	if addr.Is4In6() {
		if bits -= 96; bits < 0 {
			return netip.Prefix{}, fmt.Errorf("%q: must have a length from 96 to 128: these are IPv4 addresses", s)
		}
		addr = addr.Unmap()
	}
	if nat64.Contains(addr) && bits > nat64.Bits() {
		addr, bits = Plain(addr), bits-nat64.Bits()
	}
	return netip.PrefixFrom(addr, bits).Masked(), nil
}

// Prefixes is a set of addresses and ranges. It is safe for concurrent use once it is
// built; a nil set is empty.
type Prefixes struct {
	trie bart.Lite
}

// ParsePrefixes makes a set of what [ParsePrefix] reads. The error joins all entries
// that are wrong.
func ParsePrefixes(entries []string) (*Prefixes, error) {
	var set Prefixes
	var problems []error
	for _, entry := range entries {
		prefix, err := ParsePrefix(entry)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		set.trie.Insert(prefix)
	}
	return &set, errors.Join(problems...)
}

// NewPrefixes makes a set of ranges in the form that [ParsePrefix] gives them.
func NewPrefixes(ranges []netip.Prefix) *Prefixes {
	var set Prefixes
	for _, p := range ranges {
		set.trie.Insert(p)
	}
	return &set
}

// Contains reports whether the address is in the set, whatever its form. An invalid
// address never is.
func (p *Prefixes) Contains(addr netip.Addr) bool {
	if p == nil || !addr.IsValid() {
		return false
	}
	return p.trie.Contains(Plain(addr))
}

// rangeIndex finds rules by address. The trie knows the longest range around an address;
// each range knows the next longer one around itself.
type rangeIndex struct {
	trie  bart.Table[int32]
	nodes []rangeNode
}

type rangeNode struct {
	prefix netip.Prefix
	rules  []int32
	parent int32 // -1 at the top
}

func (ri *rangeIndex) add(id int32, ranges []netip.Prefix) {
	for _, p := range ranges {
		n, found := ri.trie.Get(p)
		if !found {
			n = int32(len(ri.nodes))
			ri.trie.Insert(p, n)
			ri.nodes = append(ri.nodes, rangeNode{prefix: p, parent: -1})
		}
		// One rule after the other is added: a range it lists twice is at the end.
		node := &ri.nodes[n]
		if len(node.rules) == 0 || node.rules[len(node.rules)-1] != id {
			node.rules = append(node.rules, id)
		}
	}
}

func (ri *rangeIndex) build() {
	for i := range ri.nodes {
		node := &ri.nodes[i]
		if node.prefix.Bits() == 0 {
			continue
		}
		wider := netip.PrefixFrom(node.prefix.Addr(), node.prefix.Bits()-1).Masked()
		if parent, found := ri.trie.LookupPrefix(wider); found {
			node.parent = parent
		}
	}
}

func (ri *rangeIndex) find(client netip.Addr, sc *scratch) {
	if len(ri.nodes) == 0 || !client.IsValid() {
		return
	}
	n, found := ri.trie.Lookup(Plain(client))
	if !found {
		return
	}
	for n >= 0 {
		for _, id := range ri.nodes[n].rules {
			sc.candidates.add(id)
		}
		n = ri.nodes[n].parent
	}
}

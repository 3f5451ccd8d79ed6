package source

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weirhq/caddy-weir/blocklist"
)

// maxText is how much of a rejected entry is kept, in bytes.
const maxText = 120

// A collector gathers what a list says, whatever its format.
type collector struct {
	limits  Limits
	entries []entry
	allowed []netip.Prefix
	agents  []string
	lines   []Line
	// rejected are all that were not taken; garbled are those of them that make no sense in
	// the format, rather than being unwanted.
	rejected, garbled int
}

func newCollector(l Limits) *collector {
	if l.MaxEntries <= 0 {
		l.MaxEntries = DefaultMaxEntries
	}
	if l.At.IsZero() {
		l.At = time.Now()
	}
	return &collector{limits: l}
}

// reject notes an entry that is understood and unwanted.
func (c *collector) reject(line int, text, why string) {
	c.rejected++
	if len(c.lines) < MaxLines {
		c.lines = append(c.lines, Line{Number: line, Text: excerpt(text), Why: why})
	}
}

// garble notes an entry that makes no sense.
func (c *collector) garble(line int, text, why string) {
	c.garbled++
	c.reject(line, text, why)
}

// add takes an address or range to block, until an end or forever.
func (c *collector) add(line int, text string, until int64) error {
	return c.take(line, text, entry{until: until})
}

// take reads an address or range; e says all else about the entry.
func (c *collector) take(line int, text string, e entry) error {
	prefixes, err := parseEntry(text)
	if err != nil {
		c.garble(line, text, err.Error())
		return nil
	}
	for i, p := range prefixes {
		if !e.allow {
			if why := c.tooBroad(p); why != "" {
				c.reject(line, text, why)
				return nil
			}
			if w := c.limits.IPv6Prefix; w > 0 && p.Addr().Is6() && p.IsSingleIP() {
				prefixes[i] = netip.PrefixFrom(p.Addr(), w).Masked()
			}
		}
	}
	for _, p := range prefixes {
		e.prefix = p
		c.entries = append(c.entries, e)
		if e.allow {
			c.allowed = append(c.allowed, p)
		}
	}
	return c.room()
}

// tooBroad says what is wrong with the width of a range.
func (c *collector) tooBroad(p netip.Prefix) string {
	least := minBits4
	if p.Addr().Is6() {
		least = minBits6
	}
	switch {
	case p.Bits() == 0:
		return "is every address there is"
	case p.Bits() < least && !c.limits.Broad:
		return fmt.Sprintf("is wider than /%d", least)
	}
	return ""
}

// agent takes a name.
func (c *collector) agent(line int, name string) error {
	if why := checkAgent(name); why != "" {
		c.garble(line, name, why)
		return nil
	}
	c.agents = append(c.agents, name)
	return c.room()
}

// checkAgent says what is wrong with a name.
func checkAgent(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "must be printable text"
	}
	rule := blocklist.Rule{Name: "list", Fields: []blocklist.Field{{Name: "agent", Patterns: []string{name}}}}
	if err := rule.Check(); err != nil {
		_, why, found := strings.Cut(err.Error(), fmt.Sprintf("%q ", name))
		if !found {
			why = err.Error()
		}
		why, _, _ = strings.Cut(why, "\n")
		return why
	}
	return ""
}

// room is an error once there are too many entries.
func (c *collector) room() error {
	if len(c.entries)+len(c.agents) > c.limits.MaxEntries {
		return fmt.Errorf("has more than %d entries", c.limits.MaxEntries)
	}
	return nil
}

// parsed makes of what was gathered what is handed out.
func (c *collector) parsed(f Format) (Parsed, error) {
	if taken := len(c.entries) + len(c.agents); c.garbled > taken {
		return Parsed{}, fmt.Errorf("has more lines that make no sense as %s (%d) than lines that do (%d); the first is %s", f, c.garbled, taken, c.lines[0])
	}
	p := Parsed{Format: f, Allowed: ranges(c.allowed), Rejected: c.lines, RejectedCount: c.rejected}
	p.set(normalise(c.entries))
	slices.Sort(c.agents)
	p.Agents = slices.Compact(c.agents)
	return p, nil
}

// set makes the prefixes of entries that are normal.
func (p *Parsed) set(entries []entry) {
	p.Prefixes, p.Until = make([]netip.Prefix, len(entries)), nil
	for i, e := range entries {
		p.Prefixes[i] = e.prefix
		if e.until == forever {
			continue
		}
		if p.Until == nil {
			p.Until = make(map[netip.Prefix]time.Time)
		}
		p.Until[e.prefix] = time.Unix(0, e.until).UTC()
	}
}

// entries is the reverse of set.
func (p *Parsed) entries() []entry {
	entries := make([]entry, len(p.Prefixes))
	for i, prefix := range p.Prefixes {
		entries[i] = entry{prefix: prefix, until: forever}
		if until, ends := p.Until[prefix]; ends {
			entries[i].until = until.UnixNano()
		}
	}
	return entries
}

// longest is the longest end that is not as good as none.
const longest = 100 * 365 * 24 * time.Hour

// after returns the moment a while after the list was written.
func (c *collector) after(d time.Duration) int64 {
	if d > longest {
		return forever
	}
	return c.limits.At.Add(d).UnixNano()
}

// excerpt shortens a text for a report, and replaces what is not to be printed.
func excerpt(text string) string {
	cut := len(text) > maxText
	if cut {
		text = text[:maxText]
	}
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	if cut {
		text += "..."
	}
	return text
}

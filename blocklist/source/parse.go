package source

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"
)

// Bounds of what is read, unless [Limits] say otherwise.
const (
	// DefaultMaxEntries is the most entries of one list.
	DefaultMaxEntries = 1_000_000
	// DefaultMaxBytes is the most bytes of one list, unpacked.
	DefaultMaxBytes = 64 << 20
	// MaxLines is how many rejected lines are kept with their text; all are counted.
	MaxLines = 100

	// Ranges wider than these are rejected: a list that names a 256th of the internet
	// is wrong, or is meant for something else.
	minBits4 = 8
	minBits6 = 19
)

// Limits bound what is read from one list. The zero value holds the defaults.
type Limits struct {
	// MaxEntries is the most entries, of which one more makes the whole list an error.
	// Default: DefaultMaxEntries.
	MaxEntries int
	// MaxBytes is the most bytes of the list, unpacked. Default: DefaultMaxBytes.
	MaxBytes int64
	// Broad takes ranges wider than /8 (IPv4) and /19 (IPv6) too. Default: they are
	// rejected. A range of all addresses, /0, always is.
	Broad bool
	// IPv6Prefix widens single IPv6 addresses to their networks of that many bits, for
	// who has one address there has them all. Default: 0, they stay single.
	IPv6Prefix int
	// At is when the list was written: times that a list gives as a duration count from
	// then. Default: now.
	At time.Time
}

// Check joins what is wrong with the limits.
func (l Limits) Check() error {
	var problems []error
	if l.MaxEntries < 0 {
		problems = append(problems, fmt.Errorf("max_entries: must be positive, got %d", l.MaxEntries))
	}
	if l.MaxBytes < 0 {
		problems = append(problems, fmt.Errorf("max_bytes: must be positive, got %d", l.MaxBytes))
	}
	if w := l.IPv6Prefix; w != 0 && (w < 32 || w > 128) {
		problems = append(problems, fmt.Errorf("ipv6_prefix: must be from 32 to 128, got %d", w))
	}
	return errors.Join(problems...)
}

// Parsed is a list as it was read.
type Parsed struct {
	// Format it was read in; never Auto.
	Format Format
	// Prefixes are the ranges to block: in their plain form (see blocklist.ParsePrefix),
	// sorted, none twice, and none within another that lasts as long. Exceptions of the
	// list are cut out.
	Prefixes []netip.Prefix
	// Until holds the ends of those prefixes that have one. Nil if none does.
	Until map[netip.Prefix]time.Time
	// Agents are names for the field agent, as they were written, sorted.
	Agents []string
	// Allowed are the exceptions that the list itself makes, such as nomatch and allow.
	// They are exceptions from this list only, already cut out of Prefixes, and give no
	// right to be let in by others.
	Allowed []netip.Prefix
	// Stripped are what [Strip] took away; only sources fill it.
	Stripped []netip.Prefix
	// Rejected are the first lines that were not taken, RejectedCount all there are.
	Rejected      []Line
	RejectedCount int
}

// A Line is one that was not taken.
type Line struct {
	// Number of the line, from 1. In JSON it is where the entry ends.
	Number int
	// Text of the entry, shortened, without control characters.
	Text string
	// Why it was not taken, in words for people.
	Why string
}

// String says the line in the way of a compiler.
func (l Line) String() string { return fmt.Sprintf("line %d: %q: %s", l.Number, l.Text, l.Why) }

// Len is how many entries the list has.
func (p Parsed) Len() int { return len(p.Prefixes) + len(p.Agents) }

// Errors by which a list is refused as a whole.
var (
	// ErrPage says that there is a web page where a list should be.
	ErrPage = errors.New("is a web page, not a list")
	// ErrEmpty says that a list holds nothing at all.
	ErrEmpty = errors.New("is empty")
)

// readers read each of the formats.
var readers = [...]func(*collector, *bufio.Reader) error{
	Plain: readPlain, Drop: readDrop, IPSet: readIPSet, Nginx: readNginx, CrowdSec: readCrowdSec, CrowdSecCSV: readCSV,
	Ranges: readRanges, Tor: readTor, Agents: readAgents, Robots: readRobots,
}

// Parse reads a list, of any length in one pass; it may be compressed by gzip. Lines that
// are wrong are rejected and counted, each with its number. It is an error, and there is
// no list at all, if more lines make no sense in the format than do, if a JSON document is
// not whole, if there is too much of it, and if there is nothing (ErrEmpty) or a web page
// (ErrPage) where a list should be. A list of nothing but comments is empty and no
// error.
func Parse(r io.Reader, f Format, l Limits) (Parsed, error) { return parse(r, f, l, "", "") }

// parse is told, besides, what helps to tell the format: see [Detect].
func parse(r io.Reader, f Format, l Limits, contentType, name string) (Parsed, error) {
	if err := l.Check(); err != nil {
		return Parsed{}, err
	}
	text, err := unpack(r, l.MaxBytes)
	if err != nil {
		return Parsed{}, err
	}
	if start, _ := text.Peek(len(bom)); string(start) == bom {
		_, _ = text.Discard(len(bom))
	}
	head, err := text.Peek(headSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return Parsed{}, err
	}
	switch start := bytes.TrimSpace(head); {
	case len(start) == 0 && len(head) < headSize:
		return Parsed{}, ErrEmpty
	case bytes.IndexByte(head, 0) >= 0:
		return Parsed{}, errNoText
	case len(start) > 0 && start[0] == '<':
		return Parsed{}, ErrPage
	}
	if f == Auto {
		f = Detect(head, contentType, name)
	}
	if int(f) >= len(readers) {
		return Parsed{}, fmt.Errorf("format: no format %d", f)
	}
	c := newCollector(l)
	if err := readers[f](c, text); err != nil {
		return Parsed{}, err
	}
	return c.parsed(f)
}

// unpack returns the text of a list, which may be compressed, as far as it is not larger
// than most; either way of counting its bytes counts.
func unpack(r io.Reader, most int64) (*bufio.Reader, error) {
	if most <= 0 {
		most = DefaultMaxBytes
	}
	packed := bufio.NewReaderSize(&capped{r: r, left: most, most: most}, maxLine)
	if start, err := packed.Peek(2); err != nil || start[0] != 0x1f || start[1] != 0x8b {
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		return packed, nil
	}
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	return bufio.NewReaderSize(&capped{r: unpacked, left: most, most: most}, maxLine), nil
}

// A capped reader fails once it has read too much.
type capped struct {
	r          io.Reader
	left, most int64
}

func (c *capped) Read(p []byte) (int, error) {
	if int64(len(p)) > c.left+1 {
		p = p[:c.left+1]
	}
	n, err := c.r.Read(p)
	if c.left -= int64(n); c.left < 0 {
		return 0, fmt.Errorf("is larger than %d bytes", c.most)
	}
	return n, err
}

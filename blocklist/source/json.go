package source

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A walker reads a JSON document piece by piece and knows in which line it is.
type walker struct {
	*json.Decoder
	c     *collector
	lines *newlines
	depth int
}

// maxDepth is how deep the objects and lists of a document may lie in each other.
const maxDepth = 64

func newWalker(c *collector, r *bufio.Reader) *walker {
	lines := &newlines{r: r}
	return &walker{Decoder: json.NewDecoder(lines), c: c, lines: lines}
}

// line is the number of the line that has been read to.
func (w *walker) line() int { return w.lines.at(w.InputOffset()) }

// fail says where the document is broken.
func (w *walker) fail(err error) error {
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("line %d: ends too early: %w", w.line(), io.ErrUnexpectedEOF)
	case errors.As(err, &syntax):
		return fmt.Errorf("line %d: is no JSON: %w", w.line(), err)
	}
	return err
}

// ends wants nothing to follow the document.
func (w *walker) ends() error {
	if _, err := w.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("line %d: has more after its end", w.line())
	}
	return nil
}

// skip passes over the next value, however large.
func (w *walker) skip() error {
	for depth := 0; ; {
		token, err := w.Token()
		if err != nil {
			return w.fail(err)
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		switch {
		case depth <= 0:
			return nil
		case w.depth+depth > maxDepth:
			return w.tooDeep()
		}
	}
}

func (w *walker) tooDeep() error {
	return fmt.Errorf("line %d: has more than %d levels", w.line(), maxDepth)
}

// each calls read before each element of the array that has just begun, and reads its end.
func (w *walker) each(read func() error) error {
	if w.depth++; w.depth > maxDepth {
		return w.tooDeep()
	}
	for w.More() {
		if err := read(); err != nil {
			return err
		}
	}
	w.depth--
	_, err := w.Token()
	return w.fail(err)
}

// fields calls read after the key of each field of the object that has just begun, and
// reads its end.
func (w *walker) fields(read func(key string) error) error {
	return w.each(func() error {
		key, err := w.Token()
		if err != nil {
			return w.fail(err)
		}
		name, _ := key.(string)
		return read(name)
	})
}

// newlines passes a text on and remembers where its lines end, as far as they have not been
// asked for.
type newlines struct {
	r    io.Reader
	ends []int64 // offsets, ascending
	read int64
	line int // lines that ended before ends[0]
}

// Read reads on.
func (n *newlines) Read(p []byte) (int, error) {
	k, err := n.r.Read(p)
	for i, b := range p[:k] {
		if b == '\n' {
			n.ends = append(n.ends, n.read+int64(i))
		}
	}
	n.read += int64(k)
	return k, err
}

// at returns the number of the line at an offset, which must never go down.
func (n *newlines) at(offset int64) int {
	i := 0
	for i < len(n.ends) && n.ends[i] < offset {
		i++
	}
	n.line += i
	n.ends = n.ends[:copy(n.ends, n.ends[i:])]
	return n.line + 1
}

// readDrop reads a JSON object a line; the last one says how many there were.
func readDrop(c *collector, r *bufio.Reader) error {
	found, promised := 0, -1
	end := 0
	err := eachLine(c, r, func(number int, line string) error {
		end = number
		var record struct {
			CIDR    string
			Type    string
			Records *int
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			c.garble(number, line, "is no JSON object")
			return nil
		}
		switch {
		case record.CIDR != "":
			found++
			return c.add(number, record.CIDR, forever)
		case record.Type == "metadata":
			if record.Records != nil {
				promised = *record.Records
			}
		default:
			c.garble(number, line, `must have "cidr"`)
		}
		return nil
	})
	if err == nil && promised >= 0 && promised != found {
		return fmt.Errorf("line %d: promises %d records, and there are %d", end, promised, found)
	}
	return err
}

// rangeKeys are the keys, in lower case, under which ranges are published.
var rangeKeys = map[string]bool{
	"ipv4prefix": true, "ipv6prefix": true, "ip_prefix": true, "ipv6_prefix": true, "cidr": true, "cidrs": true,
	"ipv4_cidrs": true, "ipv6_cidrs": true, "addresses": true, "ipv6_addresses": true, "addressprefixes": true,
	"ipaddress": true, "ip": true, "ips": true, "ip_address": true, "ipv4": true, "ipv6": true,
}

// readRanges finds the ranges in a JSON document: strings under a key of rangeKeys, the
// elements of a list of strings, and those of any other list that are ranges.
func readRanges(c *collector, r *bufio.Reader) error {
	w := newWalker(c, r)
	if err := w.ranges(true, false); err != nil {
		return err
	}
	return w.ends()
}

// ranges reads a value. Sure says that strings in it must be ranges, listed that it
// stands in a list.
func (w *walker) ranges(sure, listed bool) error {
	token, err := w.Token()
	if err != nil {
		return w.fail(err)
	}
	switch token := token.(type) {
	case json.Delim:
		if token == '[' {
			return w.each(func() error { return w.ranges(sure, true) })
		}
		return w.fields(func(key string) error { return w.ranges(rangeKeys[strings.ToLower(key)], false) })
	case string:
		if _, err := parseEntry(token); sure || listed && err == nil {
			return w.c.add(w.line(), token, forever)
		}
	}
	return nil
}

// readRobots reads an object with a key, and an object under it, for each crawler; or a list of names.
func readRobots(c *collector, r *bufio.Reader) error {
	w := newWalker(c, r)
	token, err := w.Token()
	if err != nil {
		return w.fail(err)
	}
	switch token {
	case json.Delim('{'):
		err = w.fields(w.robot)
	case json.Delim('['):
		err = w.each(func() error {
			token, err := w.Token()
			if err != nil {
				return w.fail(err)
			}
			name, ok := token.(string)
			if !ok {
				return fmt.Errorf("line %d: must be a list of names", w.line())
			}
			return c.agent(w.line(), name)
		})
	default:
		return errors.New("must be an object with a key for each crawler")
	}
	if err != nil {
		return err
	}
	return w.ends()
}

// robot reads what follows the name of a crawler.
func (w *walker) robot(name string) error {
	line := w.line()
	token, err := w.Token()
	if err != nil {
		return w.fail(err)
	}
	if token != json.Delim('{') {
		w.c.garble(line, name, "must have an object after it")
		if token == json.Delim('[') {
			return w.each(w.skip)
		}
		return nil
	}
	if err := w.fields(func(string) error { return w.skip() }); err != nil {
		return err
	}
	return w.c.agent(line, name)
}

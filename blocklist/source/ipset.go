package source

import (
	"bufio"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An ipset is one set of a file.
type ipset struct {
	number int16
	// until is the end of entries that name none.
	until int64
	// bits of the networks that entries without a length mean; empty for single
	// addresses.
	bits string
	// sets says that what is in the set is the names of others.
	sets bool
}

// An ipsetReader reads what `ipset save` prints: sets are created, and then filled. In
// a set the narrowest entry that holds an address decides, and nomatch makes it an
// exception, from this set only.
type ipsetReader struct {
	c     *collector
	sets  map[string]*ipset
	order int32
}

func readIPSet(c *collector, r *bufio.Reader) error {
	ir := &ipsetReader{c: c, sets: make(map[string]*ipset)}
	if err := eachLine(c, r, ir.line); err != nil {
		return err
	}
	if len(c.allowed) == 0 {
		return nil
	}
	sets := make([][]entry, len(ir.sets))
	for _, e := range c.entries {
		sets[e.set] = append(sets[e.set], e)
	}
	c.entries = nil
	cut := cutter{left: maxPieces}
	for _, set := range sets {
		rest, err := except(set, false, &cut)
		if err != nil {
			return err
		}
		c.entries = append(c.entries, rest...)
	}
	return nil
}

func (ir *ipsetReader) line(number int, line string) error {
	fields := ipsetFields(line)
	if len(fields) == 0 {
		return nil
	}
	command, fields := fields[0], fields[1:]
	why := ""
	switch command {
	case "create", "--create", "-N":
		why = ir.create(fields)
	case "add", "--add", "-A":
		return ir.add(number, line, fields)
	case "flush", "swap", "rename", "destroy", "COMMIT":
		// In scripts around a list; none of them adds anything.
	default:
		why = "must be create or add"
	}
	if why != "" {
		ir.c.garble(number, line, why)
	}
	return nil
}

// create makes a set, and answers what is wrong, if anything is.
func (ir *ipsetReader) create(fields []string) (why string) {
	if len(fields) < 2 {
		return "must be create with a name and a type"
	}
	set, why := ir.set(fields[0])
	if why != "" {
		return why
	}
	set.sets = fields[1] == "list:set" || fields[1] == "setlist"
	for i := 2; i+1 < len(fields); i++ {
		switch strings.TrimLeft(fields[i], "-") {
		case "timeout":
			if set.until, why = ir.until(fields[i+1]); why != "" {
				return why
			}
		case "netmask":
			set.bits = fields[i+1]
		}
	}
	return ""
}

// set returns the set of a name, which some files forget to create.
func (ir *ipsetReader) set(name string) (set *ipset, why string) {
	set = ir.sets[name]
	if set == nil {
		if len(ir.sets) == math.MaxInt16 {
			return nil, "is one set too many"
		}
		set = &ipset{number: int16(len(ir.sets)), until: forever}
		ir.sets[name] = set
	}
	return set, ""
}

func (ir *ipsetReader) add(number int, line string, fields []string) error {
	if len(fields) < 2 {
		ir.c.garble(number, line, "must be add with a set and an entry")
		return nil
	}
	set, why := ir.set(fields[0])
	if why != "" {
		ir.c.garble(number, line, why)
		return nil
	}
	address := fields[1]
	switch {
	case set.sets:
		ir.c.reject(number, line, "names another set")
		return nil
	case strings.Contains(address, ","):
		ir.c.reject(number, line, "has more to it than an address")
		return nil
	case set.bits != "" && !strings.ContainsAny(address, "/-"):
		address += "/" + set.bits
	}
	ir.order++
	e := entry{until: set.until, order: ir.order, set: set.number, allow: slices.Contains(fields[2:], "nomatch")}
	for i := 2; i+1 < len(fields); i++ {
		if fields[i] == "timeout" {
			if e.until, why = ir.until(fields[i+1]); why != "" {
				ir.c.garble(number, line, why)
				return nil
			}
		}
	}
	return ir.c.take(number, address, e)
}

// until reads a timeout: whole seconds, of which 0 means that there is none.
func (ir *ipsetReader) until(text string) (until int64, why string) {
	n, err := strconv.ParseUint(text, 10, 32)
	switch {
	case err != nil:
		return 0, "timeout must be a number of seconds"
	case n == 0:
		return forever, ""
	}
	return ir.c.after(time.Duration(n) * time.Second), ""
}

// ipsetFields splits a line at blanks; a comment in quotes is one field, and the flag that
// makes a repetition no error is left out.
func ipsetFields(line string) []string {
	var fields []string
	for line = strings.TrimLeft(line, " \t"); line != "" && line[0] != '#'; line = strings.TrimLeft(line, " \t") {
		var field string
		if line[0] == '"' {
			field, line, _ = strings.Cut(line[1:], `"`)
			field = `"` + field
		} else if end := strings.IndexAny(line, " \t"); end >= 0 {
			field, line = line[:end], line[end:]
		} else {
			field, line = line, ""
		}
		if field != "-exist" && field != "-!" {
			fields = append(fields, field)
		}
	}
	return fields
}

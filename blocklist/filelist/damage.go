package filelist

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// errNotWhole says that not even the list's first block ends.
var errNotWhole = errors.New("the list is not whole")

// Damage is the error of a file in which something is wrong that no crash leaves there: somebody, or a
// disk, has changed what was written. What stands before it still counts.
type Damage struct {
	// Path of the file.
	Path string
	// Line and Last are the first and the last line of the block that is wrong, counted from 1, or the one line
	// in it that is; Byte is where the block begins, counted from 0.
	Line, Last int
	Byte       int64
	// Why it is wrong.
	Why error
	// Version is the last that stands before the damage; 0 if none does.
	Version uint64
	// Lost is how many changes stand in the damage and behind it, as far as they can be told, and LostTo
	// the version to which the last of them led.
	Lost   int
	LostTo uint64

	remains remains
	// whole says that the block's checksum is right: what wrote it knew more than this reader.
	whole bool
}

// remains is what is in force of a list whose file is damaged.
type remains uint8

const (
	nothing   remains = iota
	all               // it was read before the damage was done
	beginning         // what stands before the damage
	older             // what the file before it says
)

// Error implements error.
func (d *Damage) Error() string {
	lines := fmt.Sprintf("line %d", d.Line)
	if d.Last > d.Line {
		lines = fmt.Sprintf("lines %d to %d", d.Line, d.Last)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: is damaged in %s, from byte %d: %v", d.Path, lines, d.Byte, d.Why)
	switch d.remains {
	case all:
		b.WriteString("; the list as it was read before stays in force")
		return b.String()
	case beginning:
		fmt.Fprintf(&b, "; what stands before is in force, up to version %d", d.Version)
	case older:
		fmt.Fprintf(&b, "; %s is in force in its place, of version %d", filepath.Base(d.Path)+before, d.Version)
	case nothing:
		b.WriteString("; nothing of it is in force")
	}
	switch {
	case d.Lost == 1:
		fmt.Fprintf(&b, ", and the change to version %d is not", d.LostTo)
	case d.Lost > 1:
		fmt.Fprintf(&b, ", and %d changes, the last to version %d, are not", d.Lost, d.LostTo)
	}
	return b.String()
}

// Unwrap returns why the file is wrong.
func (d *Damage) Unwrap() error { return d.Why }

// damage tells what is wrong with a block, which was just read, and looks at what stands behind it.
func (l *lines) damage(path string, b rawBlock, why error, version uint64) *Damage {
	d := &Damage{Path: path, Line: b.line, Last: max(b.line, l.read), Byte: b.at, Why: why, Version: version, whole: b.whole}
	lose := func(line string) {
		number, ours := strings.CutPrefix(line, "change ")
		number, _, _ = strings.Cut(number, " ")
		if v, err := strconv.ParseUint(number, 10, 64); ours && err == nil && v > version {
			d.Lost++
			d.LostTo = max(d.LostTo, v)
		}
	}
	lose(b.head)
	for _, line := range b.lines {
		lose(line) // the end of a block may be what is damaged
	}
	for {
		line, err := l.next()
		if err != nil {
			return d
		}
		lose(line)
	}
}

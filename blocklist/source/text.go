package source

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
)

// maxLine is the longest line that is read, in bytes.
const maxLine = 64 << 10

// bom is what some editors put before a text in UTF-8.
const bom = "\xef\xbb\xbf"

// A liner reads a text line by line.
type liner struct {
	r      *bufio.Reader
	number int
}

// next returns the next line without its end and blanks around it; it is good until
// the next call. Of a line that is too long it returns the beginning, and long. At the end of
// the text the error is io.EOF.
func (l *liner) next() (line []byte, long bool, err error) {
	line, err = l.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line, long = bytes.Clone(line[:maxText+1]), true
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = l.r.ReadSlice('\n')
		}
	}
	if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
		return nil, false, err
	}
	l.number++
	return bytes.TrimSpace(line), long, nil
}

// eachLine calls read with each line that is not empty, until one fails.
func eachLine(c *collector, r *bufio.Reader, read func(number int, line string) error) error {
	l := liner{r: r}
	for {
		line, long, err := l.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case long:
			c.garble(l.number, string(line), "is longer than 64 KiB")
		case bytes.IndexByte(line, 0) >= 0:
			return errNoText
		case len(line) > 0:
			if err := read(l.number, string(line)); err != nil {
				return err
			}
		}
	}
}

// errNoText says that a list is not even text.
var errNoText = errors.New("is no text in UTF-8")

// comment cuts off what follows any of the marks.
func comment(line string, marks ...string) string {
	for _, mark := range marks {
		line, _, _ = strings.Cut(line, mark)
	}
	return strings.TrimSpace(line)
}

// readPlain reads an address or range a line.
func readPlain(c *collector, r *bufio.Reader) error {
	return eachLine(c, r, func(number int, line string) error {
		if line = comment(line, "#", ";", "//"); line == "" {
			return nil
		}
		return c.add(number, line, forever)
	})
}

// readAgents reads a name a line. In a name there may be slashes and semicolons, so only # begins a
// comment: at the start of the line or after a blank.
func readAgents(c *collector, r *bufio.Reader) error {
	return eachLine(c, r, func(number int, line string) error {
		if line = comment("\n"+strings.ReplaceAll(line, "\t", " "), "\n#", " #"); line == "" {
			return nil
		}
		return c.agent(number, line)
	})
}

// readTor reads Tor's list of exits, a block of lines for each.
func readTor(c *collector, r *bufio.Reader) error {
	return eachLine(c, r, func(number int, line string) error {
		fields := strings.Fields(comment(line, "#"))
		if len(fields) == 0 {
			return nil
		}
		switch fields[0] {
		case "ExitNode", "Published", "LastStatus":
			return nil
		case "ExitAddress":
			if len(fields) > 1 {
				return c.add(number, fields[1], forever)
			}
		}
		c.garble(number, line, "must be ExitNode, Published, LastStatus or ExitAddress")
		return nil
	})
}

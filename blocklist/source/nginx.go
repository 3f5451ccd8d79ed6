package source

import (
	"bufio"
	"strings"
)

// An nginxReader reads the directives deny and allow: the first that holds an address
// decides about it, so that nothing counts after one that holds all.
type nginxReader struct {
	c       *collector
	pending string // of a directive that goes on in the next line
	order   int32
	closed  string // the directive after which nothing counts; empty before it
}

func readNginx(c *collector, r *bufio.Reader) error {
	nr := &nginxReader{c: c}
	end := 0
	err := eachLine(c, r, func(number int, line string) error {
		end = number
		line = comment(line, "#")
		for {
			statement, rest, ended := strings.Cut(line, ";")
			statement = strings.TrimSpace(nr.pending + " " + statement)
			if !ended {
				nr.pending = statement
				if len(statement) > maxLine {
					nr.pending = ""
					c.garble(number, statement, "must end with a semicolon")
				}
				return nil
			}
			nr.pending = ""
			if err := nr.directive(number, statement); err != nil {
				return err
			}
			line = rest
		}
	})
	if err != nil {
		return err
	}
	if nr.pending != "" {
		c.garble(end, nr.pending, "must end with a semicolon")
	}
	if len(c.allowed) > 0 {
		c.entries, err = except(c.entries, true, &cutter{left: maxPieces})
	}
	return err
}

func (nr *nginxReader) directive(number int, statement string) error {
	fields := strings.Fields(statement)
	switch {
	case len(fields) == 0:
		return nil
	case len(fields) != 2 || fields[0] != "deny" && fields[0] != "allow":
		nr.c.garble(number, statement, "must be deny or allow with one address")
		return nil
	case nr.closed != "":
		nr.c.reject(number, statement, "stands after "+nr.closed+", and so never counts")
		return nil
	}
	nr.order++
	e := entry{until: forever, order: nr.order, allow: fields[0] == "allow"}
	switch {
	case fields[1] == "unix:":
		nr.c.reject(number, statement, "is about sockets, not addresses")
		return nil
	case fields[1] == "all":
		nr.closed = statement
		if !e.allow {
			nr.c.reject(number, statement, "is every address there is")
		}
		return nil
	}
	return nr.c.take(number, fields[1], e)
}

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/weirhq/caddy-weir/blocklist"
)

// A table is lines of columns, written aligned. What stands in it may come from a client.
type table struct {
	columns *tabwriter.Writer
	aligned *bytes.Buffer
	to      io.Writer
}

func newTable(w io.Writer) table {
	aligned := new(bytes.Buffer)
	return table{tabwriter.NewWriter(aligned, 0, 0, 2, ' ', 0), aligned, w}
}

// flush writes the lines, without blanks at their ends.
func (t table) flush() error {
	t.columns.Flush() // writes to memory
	for line := range strings.Lines(t.aligned.String()) {
		if _, err := fmt.Fprintln(t.to, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// row adds a line.
func (t table) row(columns ...string) {
	last := len(columns) - 1
	t.rowTo(shown(columns[last]), columns[:last]...)
}

// rowTo adds a line whose last column is not cut.
func (t table) rowTo(last string, columns ...string) {
	for i, c := range columns {
		columns[i] = orDash(shown(c))
	}
	fmt.Fprintln(t.columns, strings.Join(append(columns, orDash(whole(last))), "\t"))
}

// orDash keeps an empty column from being overlooked.
func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// widest is the most characters of a column.
const widest = 80

// shown returns a text as a terminal may show it: in one line, cut if it is long, and
// without what a terminal acts on.
func shown(text string) string {
	text = whole(text)
	if n := []rune(text); len(n) > widest {
		return string(n[:widest-1]) + "…"
	}
	return text
}

// whole is shown, but not cut: of what went wrong the end may be what matters.
func whole(text string) string {
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return utf8.RuneError
		}
		return c
	}, text)
}

// short writes a duration in its two largest units.
func short(d time.Duration) string {
	units := []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}}
	d = d.Round(time.Second)
	for i, u := range units {
		if d < u.of {
			continue
		}
		text := fmt.Sprintf("%d%s", d/u.of, u.name)
		if i+1 < len(units) {
			if rest := d % u.of / units[i+1].of; rest > 0 {
				text += fmt.Sprintf("%d%s", rest, units[i+1].name)
			}
		}
		return text
	}
	return "0s"
}

// until writes the time to an end.
func until(at, now time.Time) string {
	switch {
	case at.IsZero(), !at.Before(blocklist.Never):
		return "never"
	case !now.Before(at):
		return "over"
	}
	return short(at.Sub(now))
}

// number writes a number with its thousands apart.
func number(n int64) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// several writes how many there are of something.
func several(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	plural := what + "s"
	if strings.HasSuffix(what, "ss") {
		plural = what + "es"
	}
	return number(n) + " " + plural
}

// writeJSON writes an answer for programs, indented since people look at it as well.
func writeJSON(cmd *cobra.Command, answer any) error {
	e := json.NewEncoder(cmd.OutOrStdout())
	e.SetIndent("", "\t")
	e.SetEscapeHTML(false)
	return e.Encode(answer)
}

package blocklist

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// The text form of a change is a line for each thing that it does, in this order:
//
//	remove NAME            takes out a rule
//	rule NAME word=value…  puts a rule
//	mode WORD              sets the mode of the list
//	lift SCOPE ORIGIN KEY  takes out a ban
//	ban KEY word=value…    puts a ban
//
// A file of the list, what Redis tells of a change, and an export are made of such lines. A record
// begins with a line that says of what version it is, who made it, when and why; behind the lines of the
// change follow those that take it back, each after the word undo.

// An Op is one thing that a change does.
type Op struct {
	// Word is rule, ban or mode.
	Word string
	// ID is the rule's name or the text of the ban's ID; empty for the mode.
	ID string
	// Text is what is put, in its text form; empty if the op takes out.
	Text string
	// Ends is when what is put ends, and Forgotten when nobody needs to know of it any
	// more; zero if it lasts.
	Ends, Forgotten time.Time
}

// Line returns the op's line.
func (o Op) Line() string {
	switch {
	case o.Text != "":
		return o.Word + " " + o.Text
	case o.Word == "ban":
		return "lift " + o.ID
	}
	return "remove " + string(appendValue(nil, o.ID, ""))
}

// Missing is the error of an op that takes out what is not there.
func (o Op) Missing() error {
	if o.Word == "rule" {
		return noRule(o.ID)
	}
	id, err := ParseBanID(o.ID)
	if err != nil {
		return err
	}
	return noBan(id)
}

// Ops returns what the change does, one by one.
func (c *Change) Ops() []Op {
	ops := make([]Op, 0, c.size()+1)
	for _, name := range c.Remove {
		ops = append(ops, Op{Word: "rule", ID: name})
	}
	for i := range c.Put {
		r := &c.Put[i]
		ops = append(ops, Op{"rule", r.Name, r.String(), r.Expires, r.Expires})
	}
	if c.Mode != nil {
		ops = append(ops, Op{Word: "mode", Text: c.Mode.String()})
	}
	for _, id := range c.Lift {
		ops = append(ops, Op{Word: "ban", ID: id.String()})
	}
	for i := range c.Ban {
		b := &c.Ban[i]
		ops = append(ops, Op{"ban", b.ID().String(), b.String(), b.Until, b.forget()})
	}
	return ops
}

// AddLine reads one line of a change and adds what it does.
func (c *Change) AddLine(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "rule":
		r, err := ParseRule(rest)
		c.Put = append(c.Put, r)
		return err
	case "remove":
		name, rest, err := cutValue(rest)
		if err == nil && rest != "" {
			err = fmt.Errorf("must be the name of a rule, got %q more", rest)
		}
		c.Remove = append(c.Remove, name)
		return err
	case "mode":
		mode, err := ParseMode(rest)
		c.Mode = &mode
		return err
	case "ban":
		b, err := ParseBan(rest)
		c.Ban = append(c.Ban, b)
		return err
	case "lift":
		id, err := ParseBanID(rest)
		c.Lift = append(c.Lift, id)
		return err
	}
	return fmt.Errorf("must begin with rule, remove, mode, ban or lift, got %q", word)
}

// ParseChange reads the text form of a change from lines; empty ones and those that begin with #
// are passed over, and so is a byte order mark. The error joins what is wrong with any of them, each with its number.
func ParseChange(r io.Reader) (Change, error) {
	var c Change
	var problems []error
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, MaxText+MaxName+16)
	n := 0
	for lines.Scan() {
		n++
		text := lines.Text()
		if n == 1 {
			text = strings.TrimPrefix(text, "\ufeff")
		}
		line := strings.TrimSpace(text)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := c.AddLine(line); err != nil {
			problems = append(problems, fmt.Errorf("line %d: %w", n, err))
		}
	}
	if err := lines.Err(); err != nil {
		problems = append(problems, fmt.Errorf("line %d: %w", n+1, err))
	}
	return c, errors.Join(problems...)
}

// AppendTo writes the content as the lines of a change that would make it out of nothing.
func (c Content) AppendTo(w io.Writer) error {
	b := bufio.NewWriter(w)
	if c.Mode != Enforce {
		fmt.Fprintf(b, "mode %s\n", c.Mode)
	}
	for _, r := range c.Rules {
		fmt.Fprintf(b, "rule %s\n", r)
	}
	for ban := range c.Bans.All() {
		fmt.Fprintf(b, "ban %s\n", ban)
	}
	return b.Flush()
}

// String returns the record's text form, several lines without the last one's end.
func (rec Record) String() string {
	var b strings.Builder
	b.WriteString(rec.Head())
	for _, op := range rec.Change.Ops() {
		b.WriteString("\n" + op.Line())
	}
	for _, op := range rec.Undo.Ops() {
		b.WriteString("\nundo " + op.Line())
	}
	return b.String()
}

// Head returns the first line of the record.
func (rec Record) Head() string {
	c := &rec.Change
	out := fmt.Appendf(nil, "change %d by=", rec.Version)
	out = appendValue(out, c.By, "")
	out = append(append(out, " at="...), formatTime(c.At)...)
	if c.Why != "" {
		out = appendValue(append(out, " why="...), c.Why, "")
	}
	if c.Auto {
		out = append(out, " auto=yes"...)
	}
	if c.Undo != 0 {
		out = strconv.AppendUint(append(out, " undo="...), c.Undo, 10)
	}
	return string(out)
}

// ParseRecord reads what String writes.
func ParseRecord(text string) (Record, error) {
	head, rest, _ := strings.Cut(text, "\n")
	var rec Record
	c := &rec.Change
	head, ours := strings.CutPrefix(head, "change ")
	if !ours {
		return Record{}, errors.New("is no record of a change")
	}
	number, err := parsePairs(head, func(word, value string) (err error) {
		switch word {
		case "by":
			c.By = value
		case "why":
			c.Why = value
		case "at":
			c.At, err = parseTime(value)
		case "auto":
			c.Auto = value == "yes"
		case "undo":
			c.Undo, err = strconv.ParseUint(value, 10, 64)
		default:
			err = errors.New("is no word of a change")
		}
		return err
	})
	if err == nil {
		rec.Version, err = strconv.ParseUint(number, 10, 64)
	}
	if err != nil {
		return Record{}, fmt.Errorf("change: %w", err)
	}
	for line := range strings.SplitSeq(rest, "\n") {
		to := c
		line, undone := strings.CutPrefix(line, "undo ")
		if undone {
			to = &rec.Undo
		}
		if line == "" {
			continue
		}
		if err := to.AddLine(line); err != nil {
			return Record{}, fmt.Errorf("change %d: %w", rec.Version, err)
		}
	}
	return rec, nil
}

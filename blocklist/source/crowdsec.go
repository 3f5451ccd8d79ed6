package source

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A decision is what CrowdSec decided about one address, or somebody.
type decision struct {
	ID        int64  `json:"id"`
	Origin    string `json:"origin"`
	Scope     string `json:"scope"`
	Value     string `json:"value"`
	Type      string `json:"type"`
	Duration  string `json:"duration"`
	Until     string `json:"until"`
	Simulated bool   `json:"simulated"`
	// Decisions are those of an alert.
	Decisions []decision `json:"decisions"`
}

// unwanted says why a decision is none to block an address; empty if it is.
func (d *decision) unwanted() string {
	switch {
	case d.Simulated:
		return "is only simulated"
	case d.Type != "" && !strings.EqualFold(d.Type, "ban"):
		return fmt.Sprintf("is of type %q, not ban", excerpt(d.Type))
	case d.Scope != "" && !strings.EqualFold(d.Scope, "ip") && !strings.EqualFold(d.Scope, "range"):
		return fmt.Sprintf("has the scope %q, not ip or range", excerpt(d.Scope))
	}
	return ""
}

// end is when the decision ends.
func (d *decision) end(c *collector) (int64, error) {
	if d.Until != "" {
		if t, err := time.Parse(time.RFC3339Nano, d.Until); err == nil {
			return c.after(t.Sub(c.limits.At)), nil
		}
	}
	if d.Duration == "" {
		return forever, nil
	}
	length, err := parseDuration(d.Duration)
	if err != nil {
		return 0, fmt.Errorf("duration must be like 4h30m, got %q", excerpt(d.Duration))
	}
	return c.after(length), nil
}

// parseDuration reads a duration of Go, or a number of days, such as 30d.
func parseDuration(text string) (time.Duration, error) {
	if number, days := strings.CutSuffix(text, "d"); days {
		n, err := strconv.ParseUint(number, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

// key tells a decision from others about the same address.
func (d *decision) key(seed maphash.Seed) uint64 {
	if d.ID != 0 {
		return uint64(d.ID)
	}
	return maphash.String(seed, strings.Join([]string{d.Origin, d.Scope, d.Value, d.Type}, "\x00"))
}

// A decider gathers decisions, of which some may be taken back by the same list.
type decider struct {
	*walker
	seed    maphash.Seed
	keys    []uint64 // of the collector's entries
	deleted map[uint64]bool
}

// readCrowdSec reads the answer of a stream of decisions, a list of decisions, or one of
// alerts with the decisions in them.
func readCrowdSec(c *collector, r *bufio.Reader) error {
	d := &decider{walker: newWalker(c, r), seed: maphash.MakeSeed(), deleted: make(map[uint64]bool)}
	token, err := d.Token()
	if err != nil {
		return d.fail(err)
	}
	switch token {
	case json.Delim('{'):
		err = d.fields(d.field)
	case json.Delim('['):
		err = d.each(func() error { return d.next(d.take) })
	case nil: // that is, null: there are no decisions
	default:
		return errors.New(`must be a list of decisions, or an object with "new" and "deleted"`)
	}
	if err != nil {
		return err
	}
	d.withdraw()
	return d.ends()
}

// field reads what is under a key of a stream's answer.
func (d *decider) field(key string) error {
	var use func(int, *decision) error
	switch key {
	case "new", "decisions":
		use = d.take
	case "deleted":
		use = func(_ int, gone *decision) error {
			if len(d.deleted) >= d.c.limits.MaxEntries {
				return fmt.Errorf("has more than %d deleted entries", d.c.limits.MaxEntries)
			}
			d.deleted[gone.key(d.seed)] = true
			return nil
		}
	default:
		return d.skip()
	}
	token, err := d.Token()
	switch {
	case err != nil:
		return d.fail(err)
	case token == nil:
		return nil
	case token != json.Delim('['):
		return fmt.Errorf("line %d: %q must be a list", d.line(), key)
	}
	return d.each(func() error { return d.next(use) })
}

// next reads one decision, or an alert, and hands it on.
func (d *decider) next(use func(line int, dec *decision) error) error {
	var dec decision
	err := d.Decode(&dec)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		d.c.garble(d.line(), dec.Value, fmt.Sprintf("%s must not be a JSON %s", field(wrong), wrong.Value))
		return nil
	case err != nil:
		return d.fail(err)
	case dec.Decisions == nil:
		return use(d.line(), &dec)
	}
	for i := range dec.Decisions {
		if err := use(d.line(), &dec.Decisions[i]); err != nil {
			return err
		}
	}
	return nil
}

// field names what has the wrong type.
func field(err *json.UnmarshalTypeError) string {
	if err.Field == "" {
		return "a decision"
	}
	return err.Field
}

// take hands a decision to the collector.
func (d *decider) take(line int, dec *decision) error {
	err := d.c.decide(line, dec)
	for len(d.keys) < len(d.c.entries) {
		d.keys = append(d.keys, dec.key(d.seed))
	}
	return err
}

// decide takes an address that is to be blocked.
func (c *collector) decide(line int, d *decision) error {
	if why := d.unwanted(); why != "" {
		c.reject(line, d.Value, why)
		return nil
	}
	end, err := d.end(c)
	if err != nil {
		c.garble(line, d.Value, err.Error())
		return nil
	}
	return c.add(line, d.Value, end)
}

// withdraw drops the decisions that the list says are deleted. What another decision says
// of the same address stays.
func (d *decider) withdraw() {
	if len(d.deleted) == 0 {
		return
	}
	kept := d.c.entries[:0]
	for i, e := range d.c.entries {
		if !d.deleted[d.keys[i]] {
			kept = append(kept, e)
		}
	}
	d.c.entries = kept
}

// columns are where the fields of a decision stand in CSV; -1 for nowhere.
type columns struct {
	value, scope, kind, duration, until, simulated int
}

// csvColumns finds them by the header line.
func csvColumns(header []string) columns {
	at := func(names ...string) int {
		for i, h := range header {
			h = strings.ToLower(strings.Trim(strings.TrimSpace(h), `"`))
			for _, name := range names {
				if h == name {
					return i
				}
			}
		}
		return -1
	}
	return columns{
		value: at("value", "ip"), scope: at("scope"), kind: at("type", "action"), duration: at("duration", "expiration"),
		until: at("until"), simulated: at("simulated"),
	}
}

// decision makes one of a record.
func (c columns) decision(record []string) *decision {
	at := func(i int) string {
		if i < 0 || i >= len(record) {
			return ""
		}
		return strings.TrimSpace(record[i])
	}
	d := &decision{
		Value: at(c.value), Scope: at(c.scope), Type: at(c.kind), Duration: at(c.duration), Until: at(c.until),
		Simulated: strings.EqualFold(at(c.simulated), "true"),
	}
	// Some write the scope before the value, as in Ip:192.0.2.1.
	if scope, value, found := strings.Cut(d.Value, ":"); found && d.Scope == "" && strings.Trim(scope, "0123456789abcdefABCDEF") != "" {
		d.Scope, d.Value = scope, value
	}
	return d
}

// readCSV reads decisions in CSV. The first record names the columns.
func readCSV(c *collector, r *bufio.Reader) error {
	cr := csv.NewReader(r)
	cr.Comment, cr.FieldsPerRecord, cr.ReuseRecord, cr.TrimLeadingSpace = '#', -1, true, true
	header, err := cr.Read()
	if errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return err
	}
	at := csvColumns(header)
	named := !slices.ContainsFunc(header, func(name string) bool { _, err := parseEntry(name); return err == nil })
	if at.value < 0 || !named {
		return errors.New("must begin with a line that names the columns, one of them value")
	}
	for {
		record, err := cr.Read()
		var broken *csv.ParseError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &broken):
			c.garble(broken.StartLine, "", "is no CSV: "+broken.Err.Error())
		case err != nil:
			return err
		default:
			line, _ := cr.FieldPos(0)
			if err := c.decide(line, at.decision(record)); err != nil {
				return err
			}
		}
	}
}

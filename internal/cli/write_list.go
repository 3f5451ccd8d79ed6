package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/internal/admin"
)

// writeList shows the list.
func writeList(w io.Writer, l *admin.List, now time.Time) error {
	fmt.Fprintf(w, "mode %s, version %d, kept in %s", l.Mode, l.Version, whole(l.Keeper))
	switch age := time.Duration(l.Age * float64(time.Second)); {
	case l.Trouble != "" && age > 0:
		fmt.Fprintf(w, "\nnot heard of for %s: %s", short(age), whole(l.Trouble))
	case l.Trouble != "":
		fmt.Fprintf(w, "\nsomething is wrong: %s", whole(l.Trouble))
	}
	if l.CopyTrouble != "" {
		fmt.Fprintf(w, "\nthe copy on disk is of no use: %s", whole(l.CopyTrouble))
	}
	fmt.Fprintf(w, "\n\n")
	switch {
	case l.Version == 0 && (l.Age > 0 || l.Trouble != ""):
		fmt.Fprintln(w, "Unknown: it was never read.")
	case l.Version == 0:
		fmt.Fprintln(w, "No rules: nothing was ever kept there.")
	case len(l.Rules) == 0:
		fmt.Fprintln(w, "No rules.")
	default:
		t := newTable(w)
		t.row("RULE", "MODE", "SCOPE", "ENDS IN", "ACTION", "BY", "WHAT", "NOTE")
		for i := range l.Rules {
			ruleRow(t, &l.Rules[i], now)
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	if len(l.Bans) > 0 {
		fmt.Fprintln(w)
		t := newTable(w)
		t.row("BANNED", "SCOPE", "BY", "ENDS IN", "TIMES", "WHY")
		for i := range l.Bans {
			banRow(t, &l.Bans[i], now)
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	switch {
	case len(l.Bans) == l.BansTotal:
	case len(l.Bans) == 0:
		fmt.Fprintf(w, "\n%s not shown.\n", several(int64(l.BansTotal), "ban"))
	default:
		fmt.Fprintf(w, "\n%s of %s shown.\n", number(int64(len(l.Bans))), several(int64(l.BansTotal), "ban"))
	}
	return writeSources(w, l.Sources, now)
}

func ruleRow(t table, r *admin.Rule, now time.Time) {
	what := r.Text
	if parsed, err := blocklist.ParseRule(r.Text); err == nil {
		what = fieldsOf(&parsed)
		scope := parsed.Scope.String()
		action := parsed.Action.String()
		if parsed.Dropped != (blocklist.Dropped{}) {
			action = strings.TrimSpace(action + " " + parsed.Dropped.String())
		}
		t.row(parsed.Name, parsed.Mode.String(), scope, until(parsed.Expires, now), action, parsed.Author, what, parsed.Note)
		return
	}
	t.row(r.Name, "", "", "", "", "", what, r.Note)
}

// fieldsOf writes what a rule looks at, as its text form does.
func fieldsOf(r *blocklist.Rule) string {
	only := blocklist.Rule{Name: "x", Source: r.Source, Fields: r.Fields}
	_, fields, _ := strings.Cut(only.String(), " ")
	return fields
}

func banRow(t table, b *admin.Ban, now time.Time) {
	who := b.Key
	if b.Client != "" {
		who = b.Client
	}
	times := ""
	if b.Count > 0 {
		times = fmt.Sprint(b.Count)
	}
	why := b.Note
	if b.Reason != "" {
		why = strings.TrimSpace(why + " " + b.Reason)
	}
	if b.Path != "" {
		why += ", last " + b.Host + b.Path
	}
	t.row(who, b.Scope, b.Origin, until(b.Until, now), times, why)
}

func writeSources(w io.Writer, sources []admin.Source, now time.Time) error {
	if len(sources) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := newTable(w)
	t.row("SOURCE", "ENTRIES", "CUT OUT", "REJECTED", "READ", "NEXT", "TROUBLE")
	for i := range sources {
		s := &sources[i]
		read, next := "never", ""
		if s.Loaded != nil {
			read = short(now.Sub(*s.Loaded)) + " ago"
		}
		if s.Next != nil {
			next = "in " + until(*s.Next, now)
		}
		t.rowTo(s.Trouble, s.Name, number(int64(s.Entries)), number(int64(s.Stripped)), number(int64(s.Rejected)), read, next)
	}
	return t.flush()
}

// writeTrail shows who changed what.
func writeTrail(w io.Writer, records []admin.Record, now time.Time) error {
	if len(records) == 0 {
		_, err := fmt.Fprintln(w, "Nothing was changed yet.")
		return err
	}
	t := newTable(w)
	t.row("VERSION", "WHEN", "BY", "WHAT", "WHY")
	for i := range records {
		r := &records[i]
		did := append([]string(nil), r.Did...)
		if r.Undid != 0 {
			did = append([]string{fmt.Sprintf("undo %d", r.Undid)}, did...)
		}
		for j, line := range did {
			if j == 0 {
				t.row(fmt.Sprint(r.Version), short(now.Sub(r.At))+" ago", r.By, line, r.Why)
				continue
			}
			if j == mostLines {
				t.row(" ", " ", " ", fmt.Sprintf("… and %d more", len(did)-j), " ")
				break
			}
			t.row(" ", " ", " ", line, " ")
		}
	}
	return t.flush()
}

// mostLines is how many lines of a change are shown.
const mostLines = 5

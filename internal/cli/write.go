package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/caddy-weir/internal/admin"
)

// writeDone says what became of a change.
func writeDone(cmd *cobra.Command, made *admin.Done) error {
	if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
		return writeJSON(cmd, made)
	}
	w := cmd.OutOrStdout()
	for _, d := range made.Insisted {
		fmt.Fprintf(w, "forced: %s: %s\n", shown(d.Rule), whole(d.Why))
	}
	fmt.Fprintf(w, "version %d: %s\n", made.Version, what(made, time.Now()))
	writeWarnings(cmd, made.Warnings)
	_, err := fmt.Fprintf(w, "to take it back: caddy weir block undo %d\n", made.Version)
	return err
}

// writeWarnings says what may not be as it was meant.
func writeWarnings(cmd *cobra.Command, warnings []string) {
	for _, w := range warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", whole(w))
	}
}

// what says in one line what a change did.
func what(made *admin.Done, now time.Time) string {
	var parts []string
	rules := func(verb string, names []string) {
		switch {
		case len(names) == 0:
		case len(names) <= 3:
			quoted := make([]string, len(names))
			for i, n := range names {
				quoted[i] = fmt.Sprintf("%q", n)
			}
			parts = append(parts, verb+" "+strings.Join(quoted, ", "))
		default:
			parts = append(parts, verb+" "+several(int64(len(names)), "rule"))
		}
	}
	rules("added", made.Put)
	if made.RuleMode != "" {
		rules("mode "+made.RuleMode+" of", made.Replaced)
	} else {
		rules("replaced", made.Replaced)
	}
	rules("removed", made.Removed)
	switch {
	case made.Whom != "":
		parts = append(parts, "banned "+shown(made.Whom))
	case made.Banned > 0:
		parts = append(parts, "banned "+number(int64(made.Banned)))
	}
	if made.Rebanned > 0 {
		parts = append(parts, "in place of "+several(int64(made.Rebanned), "ban"))
	}
	if made.Lifted > 0 {
		parts = append(parts, "lifted "+several(int64(made.Lifted), "ban"))
	}
	if made.Mode != "" {
		parts = append(parts, "mode "+made.Mode)
	}
	if made.Ends != nil {
		verb := "ends"
		if len(made.Put)+len(made.Replaced)+made.Banned > 1 {
			verb = "the first ends"
		}
		parts = append(parts, fmt.Sprintf("%s in %s", verb, until(*made.Ends, now)))
	}
	return strings.Join(parts, ", ")
}

// writePreview shows what rules would have hit.
func writePreview(w io.Writer, p *admin.Preview, now time.Time) error {
	if p.All.Requests == 0 {
		_, err := fmt.Fprintln(w, "There are no recent requests to look at.")
		return err
	}
	crowd := func(c admin.Count) string {
		return fmt.Sprintf("%s by %s, %s signed in", several(c.Requests, "request"),
			several(int64(c.Addresses), "address"), several(int64(c.Users), "user"))
	}
	t := newTable(w)
	t.row("seen", fmt.Sprintf("%s, since %s ago", crowd(p.All), short(now.Sub(*p.Since))))
	t.row("would hit", fmt.Sprintf("%s (%s, %s, %s)", crowd(p.Hit),
		admin.Percent(p.Share), admin.Percent(p.Addresses), admin.Percent(p.Users)))
	for _, field := range p.Unseen {
		t.row("unknown", field+" is not kept: what the rule would hit cannot be said")
	}
	if p.Cut > 0 {
		t.row("cut", several(int64(p.Cut), "request")+" kept in part, being too long")
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, kind := range []struct {
		name  string
		parts []admin.Part
	}{{"HOST", p.Hosts}, {"PATH", p.Paths}, {"USER AGENT", p.Agents}, {"STATUS", p.Statuses}} {
		if len(kind.parts) == 0 {
			continue
		}
		fmt.Fprintln(w)
		t := newTable(w)
		t.row("REQUESTS", kind.name)
		for _, part := range kind.parts {
			t.row(number(part.Requests), part.Value)
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	return nil
}

// writeVerdict shows what would become of a request, and why.
func writeVerdict(w io.Writer, v *admin.Verdict, now time.Time) error {
	fmt.Fprintln(w, verdict(v, now))
	for _, name := range v.DryRun {
		fmt.Fprintf(w, "in dry run: %s\n", shown(name))
	}
	fmt.Fprintln(w)
	t := newTable(w)
	t.row("LOOKED AT", "SAYS", "RULE", "WHY")
	for _, s := range v.Steps {
		says := "nothing"
		switch {
		case s.Says && s.Name == v.By:
			says = "decides"
		case s.Says:
			says = "something"
		}
		rule := s.Rule
		if s.Ban != "" {
			rule = s.Ban
		}
		if s.From != "" && s.From != rule {
			rule = strings.TrimSpace(rule + " (" + s.From + ")")
		}
		t.row(s.Name, says, rule, s.Why)
	}
	return t.flush()
}

// verdict says in one line what would become of a request.
func verdict(v *admin.Verdict, now time.Time) string {
	by := shown(v.By)
	switch {
	case v.Rule != "":
		by = fmt.Sprintf("rule %q", v.Rule)
	case v.Ban != "":
		by = fmt.Sprintf("ban %q", v.Ban)
	}
	line := v.Outcome
	if by != "" {
		line += ", by " + by
	}
	if v.Action != "" {
		line += ", action " + v.Action
	}
	if v.Dropped != "" {
		line += ", for the job: " + v.Dropped
	}
	if v.Ends != nil {
		line += ", ends in " + until(*v.Ends, now)
	}
	return line
}

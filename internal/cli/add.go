package cli

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/internal/admin"
)

// usualShare is the largest share of recent requests that a rule may hit after a preview.
const usualShare = 0.2

// add puts rules.
func add() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add [<name>] [<word>=<pattern>...]",
		Short: "Add a rule, or replace the one of that name",
		Long: `Adds a rule that refuses what all its fields match. Without an end of its own
it ends after 24 hours.

A rule is written as words and patterns behind its name, as flags, or as both;
as one text, quoted as a whole; or, if the name is a dash, as lines of text on
standard input. An address or a network alone is a rule of its own.

In patterns only * is special. Several patterns of one field are alternatives.
A rule that matches everything, that would refuse your own address (known in a
session of SSH), or that names a protected address needs --force.

With --preview the rule is first replayed over the recent requests of the Caddy
that is asked, and not added if it would have hit more than --max-share of them.` + exitCodes,
		Example: `  caddy weir block add 203.0.113.0/24
  caddy weir block add scrapers 'user_agent=*scrapy*' 'path=/wiki/*' --preview
  caddy weir block add --path '/wp-*' --method POST --action 404 --expires 7d
  caddy weir block add 'x client_ip=192.0.2.7 mode=dry_run note="who is it?"'
  caddy weir block add imports --handler 'import.*' --dropped retry:10m
  caddy weir block add - <rules.txt`,
	}
	ruleFlags(cmd)
	cmd.Flags().Bool("preview", false, "replay the rule over recent requests first")
	cmd.Flags().Float64("max-share", usualShare, "with --preview, the largest `share` of requests to hit, 0 to 1")
	orders(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		what, err := readRules(cmd, args)
		if err != nil {
			return exit(cmd, trouble, err)
		}
		return run(cmd, func(ctx context.Context, d door) error { return addRules(ctx, cmd, d, what) })
	}
	return cmd
}

func addRules(ctx context.Context, cmd *cobra.Command, d door, what admin.Add) error {
	asJSON, _ := cmd.Flags().GetBool("json")
	var preview *admin.Preview
	if first, _ := cmd.Flags().GetBool("preview"); first {
		most, _ := cmd.Flags().GetFloat64("max-share")
		if most <= 0 || most > 1 {
			return fmt.Errorf("--max-share: must be above 0 and at most 1, got %v", most)
		}
		what.MaxShare = most
		p, err := d.Preview(ctx, what)
		if err != nil {
			return err
		}
		if asJSON {
			preview = &p
		} else {
			if err := writePreview(cmd.OutOrStdout(), &p, time.Now()); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout())
		}
	}
	made, err := d.Add(ctx, what)
	if err != nil {
		return previewed(err, preview)
	}
	warnOfFirst(cmd, d, &made)
	if preview != nil {
		return writeJSON(cmd, addedAfter{made, preview})
	}
	return writeDone(cmd, &made)
}

// addedAfter is what became of rules that were previewed first, for programs.
type addedAfter struct {
	admin.Done
	Preview *admin.Preview `json:"preview"`
}

// A previewedError is why rules were not added after a preview, for programs.
type previewedError struct {
	error
	preview *admin.Preview
}

func (e *previewedError) Unwrap() error { return e.error }

// previewed adds a preview, if there is one, to an error.
func previewed(err error, p *admin.Preview) error {
	if p == nil {
		return err
	}
	return &previewedError{err, p}
}

// ruleWords are the flags that stand for a word of a rule's text form.
var ruleWords = []struct{ flag, word, usage string }{
	{"client-ip", "client_ip", "`address` or network of clients"},
	{"host", "host", "`pattern` of the host"},
	{"path", "path", "`pattern` of the path, decoded and cleaned"},
	{"url", "url", "`pattern` of path and query as they were sent"},
	{"query", "query", "`pattern` of the query; \"\" for no parameters"},
	{"method", "method", "`pattern` of the method"},
	{"user-agent", "user_agent", "`pattern` of the user agent, in any case"},
	{"agent", "agent", "`name` that stands in the user agent as a whole word"},
	{"header", "header", "`'Name: pattern'` of a header"},
	{"source", "source", "`source`: http, websocket or job; default: all"},
	{"message-type", "message_type", "`pattern` of the type of a WebSocket's message"},
	{"user", "user", "`pattern` of the user of a message or job"},
	{"handler", "handler", "`pattern` of what runs a job"},
	{"args", "args", "`pattern` of an argument of a job"},
}

// ruleSettings are those of which there is one.
var ruleSettings = []struct{ flag, word, usage string }{
	{"action", "action", "`action`: status from 400 to 599, abort, tarpit or mark; default 403"},
	{"mode", "mode", "`mode`: enforce, dry_run or off; default enforce"},
	{"scope", "scope", "`scope`: all or site:NAME; default all"},
	{"dropped", "dropped", "what workers do with a job, its `fate`: drop, retry:30s or dead_letter"},
	{"note", "note", "`text` for people"},
}

// ruleFlags defines the flags of which a rule is made.
func ruleFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.String("name", "", "`name` of the rule; default: user, time and six letters")
	for _, w := range ruleWords {
		f.StringArray(w.flag, nil, w.usage)
	}
	for _, s := range ruleSettings {
		f.String(s.flag, "", s.usage)
	}
	f.String("expires", "", "`end`: 90m, 7d, 2026-12-24T18:00:00Z or never; default 24h")
}

// readRules makes text forms of what the command line says.
func readRules(cmd *cobra.Command, args []string) (admin.Add, error) {
	f := cmd.Flags()
	what := admin.Add{Order: order(cmd)}
	what.Expires, _ = f.GetString("expires")
	name, _ := f.GetString("name")
	pairs, err := flagPairs(cmd)
	if err != nil {
		return what, err
	}
	switch {
	case len(args) == 1 && args[0] == "-":
		if len(pairs) > 0 || name != "" {
			return what, errors.New("rules on standard input go with no flags of a rule")
		}
		what.Lines, err = readLines(cmd.InOrStdin())
		return what, err
	case len(args) == 1 && strings.ContainsAny(args[0], " \t"):
		if len(pairs) > 0 || name != "" {
			return what, errors.New("a rule written as one text goes with no flags of a rule but --expires")
		}
		what.Lines = []string{args[0]}
		return what, nil
	}
	for i, arg := range args {
		word, value, isPair := strings.Cut(arg, "=")
		switch {
		case isPair:
			pairs = append(pairs, pair(word, value))
		case i > 0:
			return what, fmt.Errorf("%q: must be written as word=pattern", arg)
		case name != "":
			return what, fmt.Errorf("--name: the rule has a name already, %q", arg)
		default:
			name = arg
			if _, err := blocklist.ParsePrefix(arg); err == nil {
				pairs = append(pairs, pair("client_ip", arg))
			}
		}
	}
	if len(pairs) == 0 {
		return what, errors.New("a rule needs a field, such as --path '/wp-*' or user_agent='*scrapy*'")
	}
	if name == "" {
		name = freshName(time.Now())
	}
	what.Lines = []string{strconv.Quote(name) + " " + strings.Join(pairs, " ")}
	return what, nil
}

// freshName names a rule that nobody named. Of one name there is one rule, so a loop that adds many in a
// second must not meet one twice.
func freshName(now time.Time) string {
	return whoami() + "-" + now.UTC().Format("20060102-150405") + "-" + strings.ToLower(rand.Text()[:6])
}

// flagPairs returns what the flags say, as pairs of the text form.
func flagPairs(cmd *cobra.Command) ([]string, error) {
	f := cmd.Flags()
	var pairs []string
	for _, w := range ruleWords {
		values, _ := f.GetStringArray(w.flag)
		for _, value := range values {
			word := w.word
			if word == "header" {
				name, pattern, found := strings.Cut(value, ":")
				if !found {
					return nil, fmt.Errorf("--header: must be written as 'Name: pattern', got %q", value)
				}
				word, value = "header:"+name, strings.TrimSpace(pattern)
			}
			pairs = append(pairs, pair(word, value))
		}
	}
	for _, s := range ruleSettings {
		if f.Changed(s.flag) {
			value, _ := f.GetString(s.flag)
			pairs = append(pairs, pair(s.word, value))
		}
	}
	return pairs, nil
}

// pair writes one pair of the text form.
func pair(word, value string) string { return word + "=" + strconv.Quote(value) }

// readLines reads rules, a line each. Lines that are none stay, so that errors count as people do.
func readLines(r io.Reader) ([]string, error) {
	var lines []string
	some := false
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, blocklist.MaxText)
	for scan.Scan() {
		line := strings.TrimSpace(scan.Text())
		some = some || line != "" && line[0] != '#'
		lines = append(lines, line)
	}
	if scan.Err() == nil && !some {
		return nil, errors.New("standard input: holds no rule")
	}
	return lines, scan.Err()
}

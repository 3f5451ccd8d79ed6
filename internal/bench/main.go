// Bench measures this module beside what else there is: a Caddy with it beside one without,
// its decisions beside those of other libraries, in memory and on Redis, how exact each of them
// is, and what requests meet while Redis is away. Sides take turns within each round, so that
// what changes on the machine falls on all alike, and are compared round by round.
//
// It is a module of its own, so that users never meet it. From this folder:
//
//	go run . [flags] [part…]
//
// -list names the parts and their scenes; what they compare stands in scenes.go. The load on a
// Caddy comes from wrk. The Caddy is this very program, unless -caddy names another one with
// the module in it, such as bin/caddy as users build it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/weirhq/caddy-weir"
	"github.com/weirhq/caddy-weir/internal/bench/page"
)

// role in the environment makes this program a process that is measured.
const role = "WEIR_BENCH_ROLE"

// The roles.
const (
	asCaddy    = "caddy"
	asWorker   = "worker"
	asDistance = "distance"
)

func main() {
	if play() {
		return
	}
	b := newBench(flag.CommandLine)
	flag.Parse()
	// Whoever ends this program, or no longer reads what it prints, ends what it started.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	if err := b.run(ctx, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// play plays the role that the environment names, if it does.
func play() bool {
	var err error
	switch os.Getenv(role) {
	case asCaddy:
		caddycmd.Main()
	case asWorker:
		err = work(os.Stdin, os.Stdout)
	case asDistance:
		err = keepDistance(os.Args[1:], os.Stdin, os.Stdout)
	default:
		return false
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	return true
}

// A bench is what all scenes have in common.
type bench struct {
	caddy       string
	rounds      int
	length      time.Duration
	connections int
	profile     string
	only        string
	write       string
	quick       bool
	list        bool

	dir      string // for all files
	progress *progress
}

// newBench returns a bench whose flags are in the set.
func newBench(set *flag.FlagSet) *bench {
	b := &bench{progress: &progress{out: os.Stderr}}
	set.StringVar(&b.caddy, "caddy", "", "a Caddy with the module in it; default: this program")
	set.IntVar(&b.rounds, "pairs", 0, "how many rounds a scene has, in each of which all sides take a turn; default: see -list")
	set.DurationVar(&b.length, "length", 0, "how long a turn lasts, for wrk whole seconds; of an outage, how long it is; default: see -list")
	set.IntVar(&b.connections, "connections", 16, "connections that wrk holds")
	set.StringVar(&b.profile, "profile", "", "write a CPU profile of the last run of each Caddy to this `folder`")
	set.StringVar(&b.only, "only", "", "measure only scenes whose names match this `pattern`")
	set.StringVar(&b.write, "write", "", "put the numbers of whole parts into this `page`, between their marks, and pictures into img beside it")
	set.BoolVar(&b.quick, "quick", false, "few and short rounds: about a minute, to see that all works")
	set.BoolVar(&b.list, "list", false, "name the parts and scenes, and measure nothing")
	set.Usage = func() {
		fmt.Fprintf(set.Output(), "usage: go run . [flags] [part...]\n\nParts, %s by default:\n", strings.Join(peersParts, ", "))
		for _, p := range parts {
			fmt.Fprintf(set.Output(), "  %-10s %s\n", p.name, p.says)
		}
		fmt.Fprintln(set.Output(), "\nFlags:")
		set.PrintDefaults()
	}
	return b
}

// A part is scenes that make one section of the page.
type part struct {
	name, says    string
	normal, quick effort
	names         func() []string
	// cost estimates how long some of the scenes take.
	cost func(b *bench, e effort, chosen map[string]bool) time.Duration
	// uses names the Go modules whose versions are told.
	uses []string
	// run measures some of the scenes.
	run func(ctx context.Context, b *bench, e effort, chosen map[string]bool) (*page.Section, error)
}

// effort returns how much is measured of a part.
func (b *bench) effort(p *part) effort {
	e := p.normal
	if b.quick {
		e = p.quick
	}
	if b.rounds > 0 {
		e.rounds = b.rounds
	}
	if b.length > 0 {
		e.length = b.length
	}
	return e
}

// A plan is a part with what is measured of it.
type plan struct {
	part   *part
	chosen map[string]bool
	whole  bool
}

// plans chooses parts by their names, and scenes by the pattern.
func (b *bench) plans(names []string) ([]plan, error) {
	if len(names) == 0 {
		names = peersParts
	}
	pattern, err := regexp.Compile(b.only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	var all []plan
	for _, name := range names {
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no part is called %q: -list names them", name)
		}
		p := plan{part: &parts[i], chosen: make(map[string]bool), whole: true}
		for _, scene := range p.part.names() {
			if pattern.MatchString(scene) {
				p.chosen[scene] = true
			} else {
				p.whole = false
			}
		}
		if len(p.chosen) > 0 {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("-only: no scene of %s matches %q: -list names them", strings.Join(names, ", "), b.only)
	}
	return all, nil
}

// run measures what is asked for, prints it, and writes it to the page.
func (b *bench) run(ctx context.Context, names []string) error {
	if b.list && len(names) == 0 {
		for _, p := range parts {
			names = append(names, p.name)
		}
	}
	plans, err := b.plans(names)
	if err != nil {
		return err
	}
	if b.list {
		b.printList(plans)
		return nil
	}
	if err := b.ready(plans); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	for _, p := range plans {
		b.progress.expect(p.part.name, p.part.cost(b, b.effort(p.part), p.chosen))
	}
	for _, p := range plans {
		b.progress.begin(p.part.name)
		began := time.Now()
		section, err := p.part.run(ctx, b, b.effort(p.part), p.chosen)
		if err != nil {
			return fmt.Errorf("%s: %w", p.part.name, err)
		}
		section.Name = p.part.name
		section.Said = append([]string{provenance(b, p, began)}, section.Said...)
		if err := section.Markdown(os.Stdout, "docs/"+pictures); err != nil {
			return err
		}
		if b.write == "" {
			continue
		}
		if b.quick || !p.whole {
			fmt.Fprintf(os.Stderr, "bench: %s is not written: it was not measured in full\n", p.part.name)
			continue
		}
		if err := section.Write(b.write, pictures); err != nil {
			return err
		}
	}
	return nil
}

// pictures is the folder of pictures, beside the page.
const pictures = "img"

// ready looks for what the chosen parts need, and makes a folder for their files.
func (b *bench) ready(plans []plan) error {
	if err := b.lookUp(plans); err != nil {
		return err
	}
	var err error
	if b.caddy == "" {
		if b.caddy, err = os.Executable(); err != nil {
			return err
		}
	}
	if b.caddy, err = filepath.Abs(b.caddy); err != nil {
		return err
	}
	if _, err := os.Stat(b.caddy); err != nil {
		return fmt.Errorf("-caddy: %w", err)
	}
	if b.dir, err = os.MkdirTemp("", "weir-bench-"); err != nil {
		return err
	}
	return writeSite(b.dir)
}

func (b *bench) printList(plans []plan) {
	for _, p := range plans {
		e := b.effort(p.part)
		fmt.Printf("%s: %s (%s of %s)\n", p.part.name, p.part.says, count(e.rounds, "round"), e.length)
		for _, scene := range p.part.names() {
			if p.chosen[scene] {
				fmt.Println("  " + scene)
			}
		}
	}
}

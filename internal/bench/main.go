// Bench measures what this module costs a Caddy under load: CPU per request of two Caddys
// that differ by a few lines of their configuration, in interleaved pairs of runs.
//
// It is a module of its own, so that users never meet it. From this folder:
//
//	go run . [-pairs 15] [-run <pattern>] [-caddy <path>]
//
// The load comes from wrk. The Caddy is this very program, unless -caddy names another
// one with the module in it, such as bin/caddy as users build it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/weirhq/caddy-weir"
)

// asCaddy in the environment makes this program a Caddy.
const asCaddy = "WEIR_BENCH_CADDY"

func main() {
	if os.Getenv(asCaddy) != "" {
		caddycmd.Main()
		return
	}
	var b bench
	flag.StringVar(&b.caddy, "caddy", "", "a Caddy with the module in it; default: this program")
	flag.IntVar(&b.pairs, "pairs", 15, "how many pairs of runs a scene has")
	flag.DurationVar(&b.length, "length", 2*time.Second, "how long a run lasts")
	flag.IntVar(&b.connections, "connections", 16, "connections that wrk holds")
	flag.StringVar(&b.profile, "profile", "", "write a CPU profile of each scene's last run with the module to this folder")
	pattern := flag.String("run", "", "run the scenes whose names match")
	flag.Parse()
	// Whoever ends this program ends the Caddys with it.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := b.run(ctx, *pattern); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// A bench is what all scenes have in common.
type bench struct {
	caddy       string
	pairs       int
	length      time.Duration
	connections int
	profile     string
	dir         string // for all files
}

// run measures the scenes whose names match and prints a table.
func (b *bench) run(ctx context.Context, pattern string) error {
	if _, err := exec.LookPath("wrk"); err != nil {
		return errors.New("wrk is missing: apt-get install wrk, or brew install wrk")
	}
	chosen, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	if b.caddy == "" {
		if b.caddy, err = os.Executable(); err != nil {
			return err
		}
	}
	if b.caddy, err = filepath.Abs(b.caddy); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "weir-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if err := writeSite(b.dir); err != nil {
		return err
	}
	fmt.Printf("%d CPUs, %s, %d pairs of %s, %d connections; CPU per request in µs, medians [least, most]\n\n",
		runtime.NumCPU(), runtime.Version(), b.pairs, b.length, b.connections)
	printHead()
	for _, s := range scenes() {
		if !chosen.MatchString(s.name) {
			continue
		}
		p, err := b.measure(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		printRow(s, p)
	}
	return nil
}

// measure runs the pairs of a scene. Which of the two comes first alternates, so that
// what changes slowly on the machine falls on both alike.
func (b *bench) measure(ctx context.Context, s scene) (pairs, error) {
	var p pairs
	sides := [2]*server{}
	for i, handlers := range [2]string{s.without, s.with} {
		v, err := startServer(ctx, b, fmt.Sprintf("%s-%d", s.file(), i), s.config(handlers))
		if err != nil {
			return p, err
		}
		defer v.stop()
		sides[i] = v
	}
	for _, v := range sides {
		if err := b.warm(ctx, v, s); err != nil {
			return p, err
		}
	}
	for n := range b.pairs {
		var cost [2]float64
		for k := range sides {
			side := (n + k) % len(sides)
			last := n == b.pairs-1 && side == 1
			var err error
			if cost[side], err = b.sample(ctx, sides[side], s, last); err != nil {
				return p, err
			}
		}
		p.without, p.with = append(p.without, cost[0]), append(p.with, cost[1])
	}
	return p, nil
}

// warm sends requests until each key was seen twice.
func (b *bench) warm(ctx context.Context, v *server, s scene) error {
	for sent := 0; sent < 2*s.keys; {
		l, err := b.load(ctx, v, s)
		if err != nil {
			return err
		}
		sent += l.requests
	}
	return nil
}

// sample returns the CPU time per request of one run, in microseconds.
func (b *bench) sample(ctx context.Context, v *server, s scene, last bool) (float64, error) {
	if last && b.profile != "" {
		done := v.startProfile(filepath.Join(b.profile, s.file()+".pprof"), b.length)
		defer func() { <-done }()
	}
	before, err := v.cpu()
	if err != nil {
		return 0, err
	}
	l, err := b.load(ctx, v, s)
	if err != nil {
		return 0, err
	}
	after, err := v.cpu()
	if err != nil {
		return 0, err
	}
	if bad := l.requests - l.refused; s.refused && bad > 0 {
		return 0, fmt.Errorf("%d of %d requests were not refused", bad, l.requests)
	}
	if !s.refused && l.refused > 0 {
		return 0, fmt.Errorf("%d of %d requests were refused", l.refused, l.requests)
	}
	return float64((after - before).Nanoseconds()) / 1e3 / float64(l.requests), nil
}

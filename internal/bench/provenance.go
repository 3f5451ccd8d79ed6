package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/caddy-weir/internal/bench/peer"
)

// lookUp looks for the programs that the chosen parts need.
func (b *bench) lookUp(plans []plan) error {
	var missing []error
	for program, used := range map[string][]string{
		"wrk":          {"http", "http-more"},
		"redis-server": {"http", "redis", "accuracy", "outage"},
	} {
		need := slices.ContainsFunc(plans, func(p plan) bool { return slices.Contains(used, p.part.name) })
		if _, err := exec.LookPath(program); need && err != nil {
			missing = append(missing, fmt.Errorf("%s is missing: apt-get install %s, or brew install %s",
				program, program, strings.TrimSuffix(program, "-server")))
		}
	}
	return errors.Join(missing...)
}

// provenance says how numbers came about: when, where, from what, by what command.
func provenance(b *bench, p plan, began time.Time) string {
	e := b.effort(p.part)
	return fmt.Sprintf("Measured on %s at %s, on %s, with %s, by `go run . %s` in `internal/bench`: %s of %s, in %s altogether.",
		began.UTC().Format("2 January 2006"), commit(), machine(), strings.Join(versions(p.part.uses), ", "),
		strings.Join(os.Args[1:], " "), count(e.rounds, "round"), e.length, time.Since(began).Round(time.Second))
}

// commit names what was measured.
func commit() string {
	out, err := exec.Command("git", "rev-parse", "--short=10", "HEAD").Output()
	if err != nil {
		return "commit unknown"
	}
	text := "commit " + strings.TrimSpace(string(out))
	if changed, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no").Output(); err == nil && len(changed) > 0 {
		text += " with changes"
	}
	return text
}

// machine names the processors and the system.
func machine() string {
	return fmt.Sprintf("%s of %s, %s %s", count(runtime.NumCPU(), "processor"),
		line("/proc/cpuinfo", "model name", runtime.GOARCH), runtime.GOOS, line("/proc/sys/kernel/osrelease", "", ""))
}

// line returns what stands behind a name in a file, or the first line; otherwise if it is not
// there.
func line(path, name, otherwise string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return otherwise
	}
	for l := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
		if name == "" {
			return strings.TrimSpace(l)
		}
	}
	return otherwise
}

// caddys are the modules that a Caddy's speed depends on.
var caddys = []string{"github.com/caddyserver/caddy/v2", "github.com/redis/go-redis/v9"}

// modules returns the modules of peers.
func modules(lists ...[]peer.Peer) []string {
	var all []string
	for _, p := range slices.Concat(lists...) {
		if p.Module != "" {
			all = append(all, p.Module)
		}
	}
	return all
}

// versions names Go, modules and the redis-server with their versions.
func versions(used []string) []string {
	all := []string{"Go " + strings.TrimPrefix(runtime.Version(), "go")}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, m := range build.Deps {
			if slices.Contains(used, m.Path) {
				all = append(all, strings.TrimPrefix(m.Path, "github.com/")+" "+m.Version)
			}
		}
	}
	if out, err := exec.Command("redis-server", "--version").Output(); err == nil {
		if _, version, ok := strings.Cut(string(out), "v="); ok {
			all = append(all, "Redis "+strings.Fields(version)[0])
		}
	}
	return all
}

// count writes a number of things: 1 key, 100k keys.
func count(n int, what string) string {
	text := strconv.Itoa(n)
	if n >= 1000 && n%1000 == 0 {
		text = strconv.Itoa(n/1000) + "k"
	}
	if n != 1 {
		what += "s"
	}
	return text + " " + what
}

// word writes several words as one, for the name of a scene.
func word(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, ",", ""), " ", "_")
}

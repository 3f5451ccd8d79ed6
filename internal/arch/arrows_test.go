// Package arch holds true what docs/architecture.md says about the code: which package
// may use which, how big a file may be, what tests must not do, and that the pages and
// examples that are spoken of exist.
package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// root is the way from this package to the top of the repository.
const root = "../.."

const (
	module = "github.com/weirhq/caddy-weir"
	caddy  = "github.com/caddyserver/caddy/v2"
	redis  = "github.com/redis/go-redis/v9"
	bart   = "github.com/gaissmai/bart"
	cobra  = "github.com/spf13/cobra"
	locked = "github.com/rogpeppe/go-internal/lockedfile"
	prom   = "github.com/prometheus/client_golang"
	zap    = "go.uber.org/zap"
)

// domain is what we know about limits and blocking, without Caddy.
var domain = []string{
	"limiter", "limiter/algorithm", "limiter/memstore", "limiter/redisstore",
	"limiter/layer", "limiter/headers", "limiter/people",
	"blocklist", "blocklist/source", "blocklist/filelist", "blocklist/redislist",
}

// mayUse says for each package of ours which packages outside the standard library its
// code may import: ours by their folder, others by their module. Tests may import more.
var mayUse = map[string][]string{
	// The edge.
	"": slices.Concat(domain, []string{"internal/admin", "internal/cli", "internal/config", "internal/directive", "internal/grammar", "internal/observe", "internal/respond", caddy, prom, zap}),
	// The domain.
	"limiter":              {},
	"limiter/algorithm":    {"limiter"},
	"limiter/memstore":     {"limiter", "limiter/algorithm"},
	"limiter/redisstore":   {"limiter", "limiter/algorithm", "limiter/people", redis},
	"limiter/layer":        {"limiter"},
	"limiter/headers":      {"limiter"},
	"limiter/people":       {},
	"limiter/storetest":    {"limiter", "limiter/algorithm"},
	"blocklist":            {bart},
	"blocklist/source":     {"blocklist"},
	"blocklist/filelist":   {"blocklist", "limiter", locked},
	"blocklist/redislist":  {"blocklist", "limiter", "limiter/redisstore", redis},
	"blocklist/keepertest": {"blocklist"},
	// The services.
	"internal/config":     slices.Concat(domain, []string{"internal/aggregator", "internal/copies", "internal/feed", "internal/preview", "internal/observe", caddy, prom, zap}),
	"internal/feed":       {},
	"internal/aggregator": {"blocklist"},
	"internal/copies":     {},
	"internal/preview":    {"blocklist"},
	"internal/directive":  {caddy, zap},
	"internal/grammar":    {"limiter", "internal/aggregator", "internal/config", "internal/directive", caddy},
	"internal/observe":    slices.Concat(domain, []string{"internal/aggregator", caddy, prom, zap}),
	"internal/respond":    slices.Concat(domain, []string{caddy, zap}),
	"internal/admin":      slices.Concat(domain, []string{"internal/config", "internal/feed", "internal/observe", caddy}),
	"internal/cli":        slices.Concat(domain, []string{"internal/admin", "internal/config", caddy, cobra}),
	// What examples need to be tried.
	"examples/websocket/app": {},
	"examples/worker/worker": {},
	// For tests only.
	"internal/redistest": {redis},
	"internal/arch":      {},
	"internal/e2e":       {},
}

// A pkg is what `go list` tells about one of our packages.
type pkg struct {
	ImportPath string
	Imports    []string
}

// folder is where the package lies below the root, empty for the root itself.
func (p pkg) folder() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

// packages lists all packages of the module.
func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-buildvcs=false", "-json", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// TestArrows holds the arrows between packages: they point down only.
func TestArrows(t *testing.T) {
	unseen := maps.Clone(mayUse)
	for _, p := range packages(t) {
		allowed, known := mayUse[p.folder()]
		if !known {
			t.Errorf("package %q has no row in mayUse: say what it may import", p.folder())
			continue
		}
		delete(unseen, p.folder())
		for _, path := range p.Imports {
			if standard(path) || slices.ContainsFunc(allowed, func(a string) bool { return covers(a, path) }) {
				continue
			}
			t.Errorf("package %q imports %s, and may import only %q", p.folder(), path, allowed)
		}
	}
	for folder := range unseen {
		t.Errorf("mayUse has a row for %q, which is no package", folder)
	}
}

// standard reports whether an import path belongs to the standard library.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// covers reports whether the entry of mayUse allows the import path. A folder of ours
// stands for one package, a foreign module for all that is in it.
func covers(entry, path string) bool {
	if ours, ok := strings.CutPrefix(path, module+"/"); ok {
		return entry == ours
	}
	return path == entry || strings.HasPrefix(path, entry+"/")
}

// TestDomainNeverCompilesCaddy keeps the domain's tests a matter of seconds.
func TestDomainNeverCompilesCaddy(t *testing.T) {
	args := []string{"list", "-buildvcs=false", "-deps", "-test", "-f", "{{.ImportPath}}"}
	for _, folder := range append([]string{"limiter/storetest"}, domain...) {
		args = append(args, "./"+folder)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, module+"/limiter") {
		t.Fatal("the list of dependencies lacks the domain itself")
	}
	for _, dep := range deps {
		if covers(caddy, dep) {
			t.Errorf("the domain, or a test of it, depends on %s", dep)
		}
	}
}

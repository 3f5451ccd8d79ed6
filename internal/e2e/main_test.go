// Package e2e tells whole stories: real Caddys with this module in them, real
// redis-servers, real sockets. Most stories are scripts, testdata/script/*.txtar, whose
// verbs stand in verbs_test.go; those that need concurrency or a stopwatch are Go.
//
// The test binary is the caddy that the stories run, so that there is nothing to build
// and the race detector watches the server. Unlike a caddy that users build it has three
// windows for tests: a clock that a story sets, how long a dead node's leases last, and a file system that tells what was
// opened. `go test ./internal/e2e -caddy bin/caddy` runs the scripts that need neither
// against a caddy as users build it.
package e2e

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"github.com/rogpeppe/go-internal/testscript"

	_ "github.com/weirhq/caddy-weir"
	"github.com/weirhq/caddy-weir/internal/config"
)

// shipped is the path of a caddy as users build it; empty for the test binary itself.
var shipped = flag.String("caddy", "", "run the scripts against this caddy")

// The names of the variables that put a time into a caddy of ours.
const (
	// clockFile names a file with the time that has passed since clockStart. The
	// clock stands still until the file changes.
	clockFile = "E2E_CLOCK_FILE"
	// clockSkew is how far the clock is ahead of the true time.
	clockSkew = "E2E_CLOCK_SKEW"
	// leaseTTL is after what time a dead node's places of in_flight are free.
	leaseTTL = "E2E_LEASE_TTL"
)

// clockStart is what a clock that stands still shows at first: late in a minute and an
// hour, so that an error in a fixed window's edge would be near.
var clockStart = time.Date(2026, 3, 1, 11, 59, 59, 0, time.UTC)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"caddy": caddyMain})
}

// caddyMain is the main function of a Caddy with this module in it.
func caddyMain() {
	if path := os.Getenv(clockFile); path != "" {
		config.Clock = func() time.Time { return clockStart.Add(readDuration(path)) }
	}
	if skew := os.Getenv(clockSkew); skew != "" {
		ahead, err := time.ParseDuration(skew)
		if err != nil {
			panic(err)
		}
		config.Clock = func() time.Time { return time.Now().Add(ahead) }
	}
	if ttl := os.Getenv(leaseTTL); ttl != "" {
		d, err := time.ParseDuration(ttl)
		if err != nil {
			panic(err)
		}
		config.LeaseTTL = d
	}
	caddycmd.Main()
}

func readDuration(path string) time.Duration {
	text, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	d, err := time.ParseDuration(strings.TrimSpace(string(text)))
	if err != nil {
		panic(err)
	}
	return d
}

package cli

import (
	"strings"
	"testing"

	"github.com/weirhq/caddy-weir/internal/redistest"
)

// A wrong prefix is no error: there is only nothing, and it is said where that is.
func TestNothingThere(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	at := func(args ...string) (string, string) {
		t.Helper()
		out, problems, err := command(t, append(args, "--redis", server.Addr(), "--prefix", "other:", "--db", "1")...)
		if err != nil {
			t.Fatal(err, problems)
		}
		return out, problems
	}
	const never = "nothing was ever kept there"
	if out, _ := at("list"); !strings.Contains(out, `database 1, under the prefix "other:"`) || !strings.Contains(out, never) {
		t.Errorf("lists %s", out)
	}
	if _, problems := at("add", "x", "path=/x"); !strings.Contains(problems, never) {
		t.Errorf("the first change: %s", problems)
	}
	if _, problems := at("add", "y", "path=/y"); strings.Contains(problems, never) {
		t.Errorf("the second change: %s", problems)
	}
	if out, _ := at("list"); strings.Contains(out, never) {
		t.Errorf("lists %s", out)
	}
}

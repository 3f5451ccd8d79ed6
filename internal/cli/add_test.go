package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/weirhq/caddy-weir/blocklist"
)

// TestRuleOfACommandLine reads what is written behind add.
func TestRuleOfACommandLine(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // the rule's text form, or what is wrong
	}{
		{[]string{"x", "path=/a b*", "note=why not"}, `x path="/a b*" note="why not"`},
		{[]string{"203.0.113.0/24"}, "203.0.113.0/24 client_ip=203.0.113.0/24"},
		{[]string{`x path=/a note="one text"`}, `x path=/a note="one text"`},
		{[]string{"x", "--path", "/a", "--path", "/b", "--header", "X-A: b c", "--method", "POST"}, `x path=/a path=/b method=POST header:X-A="b c"`},
		{[]string{"--name", "x", "query=", "--action", "404"}, `x query="" action=404`},
		{[]string{"x", "--handler", "mail.*", "--source", "job", "--dropped", "retry:5m", "--scope", "site:a.example"}, "x source=job dropped=retry:5m0s scope=site:a.example handler=mail.*"},
		{[]string{"x"}, "error: a rule needs a field"},
		{[]string{"x", "y"}, `error: "y": must be written as word=pattern`},
		{[]string{"x", "path=/a", "--name", "y"}, "error: --name: the rule has a name already"},
		{[]string{"x", "--header", "nothing"}, "error: --header: must be written as 'Name: pattern'"},
		{[]string{`x path=/a`, "--path", "/b"}, "error: a rule written as one text goes with no flags"},
	} {
		got := ""
		cmd := &cobra.Command{Use: "add", RunE: func(cmd *cobra.Command, args []string) error {
			what, err := readRules(cmd, args)
			if err != nil {
				got = "error: " + err.Error()
				return nil
			}
			r, err := blocklist.ParseRule(what.Lines[0])
			if err != nil {
				t.Errorf("%q: %v", c.args, err)
			}
			got = r.String()
			return nil
		}}
		ruleFlags(cmd)
		orders(cmd)
		cmd.SetArgs(c.args)
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		want, err := blocklist.ParseRule(c.want)
		if err == nil {
			if parsed, _ := blocklist.ParseRule(got); parsed.String() != want.String() && !sameFields(parsed, want) {
				t.Errorf("%q is read as\n%s, want\n%s", c.args, got, c.want)
			}
			continue
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.args, got, c.want)
		}
	}
}

func TestFreshNames(t *testing.T) {
	seen := make(map[string]bool)
	for range 8 {
		seen[freshName(noon)] = true
	}
	if len(seen) != 8 {
		t.Errorf("eight rules of one second are called %v", seen)
	}
	for name := range seen {
		if r, err := blocklist.ParseRule(name + " path=/a"); err != nil || r.Name != name {
			t.Errorf("%q is no name: %v", name, err)
		}
	}
}

// sameFields reports whether two rules are one but for the order of their fields.
func sameFields(a, b blocklist.Rule) bool {
	words := func(r blocklist.Rule) []string {
		w := strings.Fields(r.String())
		slices.Sort(w)
		return w
	}
	return slices.Equal(words(a), words(b))
}

// TestWrongCommandLines end with code 2 and say what is wrong.
func TestWrongCommandLines(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"nothing"}, "unknown verb \"nothing\""},
		{[]string{"removee"}, `did you mean "remove"?`},
		{[]string{"add", "--nothing"}, "unknown flag: --nothing"},
		{[]string{"remove"}, "requires at least 1 arg(s)"},
		{[]string{"undo", "x"}, ""},
		{[]string{"list", "--redis", "a:1", "--file", "b"}, "only one of them"},
		{[]string{"list", "--redis", "a:1", "--password-file", "/nowhere"}, "--password-file: open /nowhere"},
		{[]string{"list", "--redis", "a:1", "--password-file", secret}, "is empty"},
		{[]string{"list", "--redis", "redis://user:hunter2@[bad"}, "redis: address: must be host:port"},
		{[]string{"list", "--file", "/nowhere/list"}, "no list at /nowhere/list"},
		{[]string{"list", "--address", "a:1-5"}, "must be that of an admin endpoint"},
	} {
		_, stderr, err := command(t, c.args...)
		if err == nil || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: %v and %q, want %q", c.args, err, stderr, c.want)
		}
		if strings.Contains(stderr, "hunter2") {
			t.Errorf("%q tells a password: %s", c.args, stderr)
		}
	}
}

func TestCaller(t *testing.T) {
	for _, c := range []struct{ client, want string }{
		{"198.51.100.9 50000 22", "198.51.100.9"}, {"fe80::1%eth0 1 22", "fe80::1"}, {"127.0.0.1 1 22", ""}, {"", ""},
	} {
		t.Setenv("SSH_CLIENT", c.client)
		t.Setenv("SSH_CONNECTION", "")
		if got := caller(); got != c.want {
			t.Errorf("SSH_CLIENT=%q: the caller is %q, want %q", c.client, got, c.want)
		}
	}
}

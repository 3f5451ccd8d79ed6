package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/internal/admin"
)

// golden compares what was written with a file in testdata. UPDATE_GOLDEN=1 rewrites it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// command runs `caddy weir block …` in this process.
func command(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return commandOf(t, "block", args...)
}

// commandOf runs a command of any topic.
func commandOf(t *testing.T, topic string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	root := &cobra.Command{Use: "caddy", SilenceUsage: true}
	weir := &cobra.Command{Use: "weir"}
	weir.AddCommand(block(), feeds())
	root.AddCommand(weir)
	var out, problems bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&problems)
	root.SetArgs(append([]string{"weir", topic}, args...))
	err = root.ExecuteContext(t.Context())
	return out.String(), problems.String(), err
}

// TestHelp shows the help of every verb.
func TestHelp(t *testing.T) {
	for _, topic := range []*cobra.Command{block(), feeds()} {
		help, _, err := commandOf(t, topic.Name(), "--help")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "help/"+topic.Name(), help)
		for _, verb := range topic.Commands() {
			help, _, err := commandOf(t, topic.Name(), verb.Name(), "--help")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "help/"+verb.Name(), help)
			if verb.Example == "" || verb.Long == "" {
				t.Errorf("%s lacks examples or an explanation", verb.Name())
			}
		}
	}
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) *time.Time {
	t := noon.Add(d)
	return &t
}

// TestTables shows what people see.
func TestTables(t *testing.T) {
	rule := func(text string) admin.Rule { return admin.Rule{Text: text} }
	list := &admin.List{
		Version: 17, Mode: "enforce", Keeper: "redis", Age: 75, Trouble: "redis: it wants a password",
		Rules: []admin.Rule{
			rule(`scrapers user_agent=*scrapy* path=/wiki/* author=ann@web1 expires=2026-03-02T11:00:00Z note="until they answer"`),
			rule(`"the job" handler=report.* source=job dropped=retry:10m scope=site:example.com mode=dry_run author=bob expires=9999-12-31T00:00:00Z`),
			rule("esc header:X-A=\"\\u202egnp.exe\" action=404 expires=2026-03-01T11:00:00Z"),
		},
		Bans: []admin.Ban{
			{Key: "BHJ0EWpNgOmR8DrUuyBqnQ", Scope: "all", Origin: "ann@web1", Until: noon.Add(time.Hour), Note: "who are they?"},
			{
				Key: "x", Client: "203.0.113.7", Scope: "zone:login", Origin: "login", Until: noon.Add(90 * time.Second), Count: 3,
				Reason: "5 responses of status 401 in 1m", Host: "example.com", Path: "/login",
			},
		},
		BansTotal: 1234,
		Sources: []admin.Source{
			{Name: "drop", Entries: 1693, Stripped: 3, Rejected: 2, Loaded: at(-3 * time.Hour), Next: at(21 * time.Hour)},
			{Name: "own", Trouble: "open /etc/own.txt: no such file or directory"},
			{Name: "web", Trouble: "Get \"https://lists.example.com/a/long/path/to/a/list.txt\": dial tcp 192.0.2.1:443: connect: connection refused"},
		},
	}
	records := []admin.Record{
		{Version: 3, At: noon.Add(-30 * time.Second), By: "bob", Undid: 2, Did: []string{"mode enforce"}},
		{Version: 2, At: noon.Add(-5 * time.Minute), By: "ann@web1", Why: "everything is refused", Did: []string{"mode off"}},
		{Version: 1, At: noon.Add(-50 * time.Hour), By: "ann@web1", Did: []string{"rule a path=/a", "rule b path=/b", "rule c path=/c", "rule d path=/d", "rule e path=/e", "rule f path=/f", "rule g path=/g"}},
	}
	preview := &admin.Preview{
		All: admin.Count{Requests: 123456, Addresses: 4321, Users: 12}, Hit: admin.Count{Requests: 1234, Addresses: 1, Users: 0},
		Share: 0.00999, Addresses: 1. / 4321, Since: at(-5 * time.Minute), Cut: 3,
		Hosts: []admin.Part{{Value: "example.com", Requests: 1234}}, Paths: []admin.Part{{Value: "/wiki/\x1b[31mRain", Requests: 1200}, {Value: "/", Requests: 34}},
		Agents: []admin.Part{{Value: "", Requests: 1234}}, Statuses: []admin.Part{{Value: "200", Requests: 1234}},
		Unseen: []string{"header Cookie"},
	}
	verdict := &admin.Verdict{
		Outcome: admin.Refuse, By: "rules", Rule: "scrapers", Action: "404", Ends: at(23 * time.Hour), DryRun: []string{"trial"},
		Steps: []admin.Step{
			{Name: "mode", Why: "the list's mode is enforce"},
			{Name: "bans"},
			{Name: "rules", Says: true, Rule: "scrapers", From: "shared", Why: `path "/wiki/*" matches "/wiki/Rain"`},
			{Name: "marks", Says: true, Rule: "m"},
		},
	}
	var b bytes.Buffer
	if err := writeList(&b, list, noon); err != nil {
		t.Fatal(err)
	}
	golden(t, "list", b.String())
	b.Reset()
	if err := writeList(&b, &admin.List{Mode: "off", Keeper: "/var/lib/list"}, noon); err != nil {
		t.Fatal(err)
	}
	golden(t, "list_empty", b.String())
	b.Reset()
	if err := writeList(&b, &admin.List{Mode: "off", Keeper: "/var/lib/list", Version: 3, BansTotal: 1}, noon); err != nil {
		t.Fatal(err)
	}
	golden(t, "list_bans_not_shown", b.String())
	b.Reset()
	if err := writeList(&b, &admin.List{Mode: "enforce", Keeper: "redis", Age: 3, Trouble: "redis: connection refused"}, noon); err != nil {
		t.Fatal(err)
	}
	golden(t, "list_unknown", b.String())
	b.Reset()
	if err := writeTrail(&b, records, noon); err != nil {
		t.Fatal(err)
	}
	golden(t, "trail", b.String())
	b.Reset()
	if err := writePreview(&b, preview, noon); err != nil {
		t.Fatal(err)
	}
	golden(t, "preview", b.String())
	b.Reset()
	if err := writeVerdict(&b, verdict, noon); err != nil {
		t.Fatal(err)
	}
	golden(t, "test", b.String())
}

func TestWhatAChangeDid(t *testing.T) {
	for _, c := range []struct {
		made admin.Done
		want string
	}{
		{admin.Done{Put: []string{"a"}, Ends: at(24 * time.Hour)}, `added "a", ends in 1d`},
		{admin.Done{Put: []string{"a", "b"}, Replaced: []string{"c"}, Ends: at(time.Minute)}, `added "a", "b", replaced "c", the first ends in 1m`},
		{admin.Done{Removed: []string{"a", "b", "c", "d"}, Mode: "off"}, "removed 4 rules, mode off"},
		{admin.Done{Banned: 1, Ends: at(time.Hour)}, "banned 1, ends in 1h"},
		{admin.Done{Banned: 1, Whom: "2001:db8::/64", Rebanned: 1, Ends: at(time.Hour)}, "banned 2001:db8::/64, in place of 1 ban, ends in 1h"},
		{admin.Done{Replaced: []string{"a"}, RuleMode: "dry_run"}, `mode dry_run of "a"`},
		{admin.Done{Lifted: 2}, "lifted 2 bans"},
	} {
		if got := what(&c.made, noon); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestShort(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0s"},
		{1499 * time.Millisecond, "1s"},
		{90 * time.Second, "1m30s"},
		{time.Hour, "1h"},
		{25*time.Hour + time.Minute, "1d1h"},
		{400 * 24 * time.Hour, "400d"},
	} {
		if got := short(c.d); got != c.want {
			t.Errorf("%s is written %q, want %q", c.d, got, c.want)
		}
	}
	if got := until(blocklist.Never, noon); got != "never" {
		t.Errorf("never is written %q", got)
	}
	if got := number(1234567); got != "1,234,567" {
		t.Errorf("got %s", got)
	}
}

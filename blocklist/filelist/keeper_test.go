package filelist

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/blocklist/keepertest"
)

func TestKeeper(t *testing.T) {
	keepertest.Exercise(t, func(t *testing.T) func() blocklist.Keeper {
		path := filepath.Join(t.TempDir(), "weir", "list")
		return func() blocklist.Keeper { return Open(path, nil) }
	})
}

func put(t *testing.T, k *Keeper, names ...string) {
	t.Helper()
	c := blocklist.Change{By: "tester"}
	for _, name := range names {
		c.Put = append(c.Put, keepertest.Rule(t, name+" path=/"+name))
	}
	if _, err := k.Apply(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// ruleNames loads the list and returns the names of its rules.
func ruleNames(t *testing.T, k *Keeper) (string, error) {
	t.Helper()
	c, err := k.Load(t.Context())
	var names []string
	for _, r := range c.Rules {
		names = append(names, r.Name)
	}
	return strings.Join(names, " "), err
}

// A crash may cut the last change off, anywhere: it is as if it had not been made, and the next
// one is written in its place.
func TestTornChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	k := Open(path, nil)
	put(t, k, "a")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	put(t, k, "b")
	all, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := len(whole); cut < len(all); cut++ {
		if err := os.WriteFile(path, all[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if names, err := ruleNames(t, Open(path, nil)); names != "a" || err != nil {
			t.Fatalf("cut at %d of %d: %q, %v", cut, len(all), names, err)
		}
	}
	put(t, Open(path, nil), "c")
	if names, err := ruleNames(t, Open(path, nil)); names != "a c" || err != nil {
		t.Errorf("after a torn change: %q, %v", names, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: others may read who is banned", info.Mode(), err)
	}
}

func TestLostList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	k := Open(path, nil)
	put(t, k, "a")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if names, err := ruleNames(t, k); names != "a" || err == nil {
		t.Errorf("%q, %v", names, err)
	}
	put(t, k, "b")
	if names, err := ruleNames(t, Open(path, nil)); names != "a b" || err != nil {
		t.Errorf("%q, %v", names, err)
	}
}

// B08, B10: what is folded keeps rules, bans with their absolute ends, and the trail; not what is over.
func TestFolding(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	now := time.Now()
	clock := func() time.Time { return now }
	k := Open(path, clock)
	until := now.Add(time.Hour).UTC().Round(0)
	ban := blocklist.Ban{Key: "k", Origin: "o", Until: until}
	short := blocklist.Ban{Key: "short", Origin: "o", Until: now.Add(time.Minute)}
	if _, err := k.Apply(t.Context(), blocklist.Change{By: "x", Ban: []blocklist.Ban{ban, short}}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Minute)
	note := strings.Repeat("x", 200_000)
	for i := range 8 {
		r := keepertest.Rule(t, "big path=/")
		r.Fields[0].Patterns = append(r.Fields[0].Patterns, "/"+fmt.Sprint(i), "/"+note[:1000])
		r.Note = note
		if _, err := k.Apply(t.Context(), blocklist.Change{By: "x", Why: fmt.Sprint(i), Put: []blocklist.Rule{r}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(path + before); err != nil {
		t.Fatalf("was never folded: %v", err)
	}
	later := Open(path, clock)
	c, err := later.Load(t.Context())
	if err != nil || len(c.Rules) != 1 || c.Bans.Len() != 1 || !c.Bans.Get(ban.ID()).Until.Equal(until) {
		t.Errorf("%d rules, %d bans, %v", len(c.Rules), c.Bans.Len(), err)
	}
	all, err := later.Trail(t.Context(), 100)
	if err != nil || len(all) != 9 || all[0].Version != 9 || all[8].Version != 1 {
		t.Errorf("%d records, %v", len(all), err)
	}
	if _, err := later.Apply(t.Context(), blocklist.Change{By: "x", Undo: 9}); err != nil {
		t.Error(err)
	}
}

func TestCopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir", "copy")
	if _, _, err := Read(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
	rule := keepertest.Rule(t, "a path=/a")
	c := blocklist.Content{Version: 7, Mode: blocklist.DryRun, Rules: []*blocklist.Rule{&rule}}
	c.Bans = blocklist.BansOf(&blocklist.Ban{Key: "k", Origin: "o", Until: time.Now().Add(time.Hour)})
	if err := Save(path, c); err != nil {
		t.Fatal(err)
	}
	got, written, err := Read(path)
	if err != nil || time.Since(written) > time.Minute || got.Version != 7 || got.Mode != blocklist.DryRun || len(got.Rules) != 1 || got.Bans.Len() != 1 {
		t.Errorf("%+v, %v, %v", got, written, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(text) {
		if err := os.WriteFile(path, text[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if got, _, err := Read(path); err == nil || got.Version != 0 {
			t.Fatalf("cut at %d of %d: %+v", cut, len(text), got)
		}
	}
}

func TestSecret(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "weir")
	if _, err := Secret(dir, true); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("peeking: %v", err)
	}
	first, err := Secret(dir, false)
	if err != nil || len(first) < 16 {
		t.Fatalf("%q, %v", first, err)
	}
	if again, err := Secret(dir, false); err != nil || !bytes.Equal(first, again) {
		t.Errorf("%q, then %q, %v", first, again, err)
	}
	info, err := os.Stat(filepath.Join(dir, secretName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := KeepSecret(dir, []byte("another secret of theirs"), false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("replaced: %v", err)
	}
	if err := KeepSecret(dir, []byte("another secret of theirs"), true); err != nil {
		t.Error(err)
	}
	if got, err := Secret(dir, true); string(got) != "another secret of theirs" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, secretName), []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Secret(dir, false); err == nil {
		t.Error("a secret that anybody can guess")
	}
	k := Open(filepath.Join(t.TempDir(), "list"), nil)
	a, err := k.Name(t.Context(), "192.0.2.1")
	if b, _ := k.Name(t.Context(), "192.0.2.1"); err != nil || a != b || strings.Contains(a, "192") {
		t.Errorf("%q, %q, %v", a, b, err)
	}
}

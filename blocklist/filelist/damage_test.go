package filelist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/blocklist/keepertest"
)

// damage changes a file in its place, as an editor does.
func damage(t *testing.T, path string, how func(text []byte) []byte) (damaged []byte) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damaged = how(text)
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	// It is long ago, so that nobody is waited for; and never the same, for the clock of a file system may stand still
	// for some milliseconds.
	ago := time.Hour + time.Duration(damages.Add(1))*time.Second
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(-ago)); err != nil {
		t.Fatal(err)
	}
	return damaged
}

var damages atomic.Int64

func instead(old, new string) func([]byte) []byte {
	return func(text []byte) []byte { return bytes.Replace(text, []byte(old), []byte(new), 1) }
}

func from(mark string, text string) func([]byte) []byte {
	return func(all []byte) []byte {
		return append(all[:bytes.Index(all, []byte(mark)):bytes.Index(all, []byte(mark))], text...)
	}
}

// B46, L128: a list that is damaged is never an empty one. Whoever knew it goes on with it; whoever did not has what stands
// before the damage, and says what is missing; and the next change is made by either, and the damaged file kept.
func TestDamagedList(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(text []byte) []byte
		left   string // what a keeper has that did not know the list
		says   string
	}{
		"in the last change":          {instead("path=/c", "path=/x"), "a b", "is damaged in lines 11 to 14, from byte"},
		"in the middle":               {instead("path=/b", "path=/x"), "a", "lines 7 to 10"},
		"a head":                      {instead("change 2", "chance 2"), "a", "lines 7 to 10"},
		"the end of a change is gone": {func(text []byte) []byte { return without(text, "end ", 2) }, "a", "lines 7 to 13"},
		"the first change":            {instead("path=/a", "path=/x"), "", "; nothing of it is in force, and 3 changes, the last to version 3, are not"},
		"the first block":             {instead("list 0", "list 7"), "", "lines 1 to 2, from byte 0: the checksum is wrong"},
		"the beginning is gone":       {func(text []byte) []byte { return text[bytes.Index(text, []byte("change 2")):] }, "", "does not begin with a list"},
		"empty":                       {func([]byte) []byte { return nil }, "", "line 1, from byte 0: the list is not whole; nothing of it is in force"},
		"a page":                      {func([]byte) []byte { return []byte("<html>\n") }, "", "the list is not whole"},
		"a word of a newer version":   {from("change 3", string(block("change 3 by=x at=2026-12-24T18:00:00Z\nflag x=1\n"))), "a b", ", and the change to version 3 is not"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "list")
			first := Open(path, nil)
			put(t, first, "a")
			put(t, first, "b")
			put(t, first, "c")
			damaged := damage(t, path, c.damage)

			if names, err := ruleNames(t, first); names != "a b c" || err == nil {
				t.Errorf("who knew it: %q, %v", names, err)
			}
			late := Open(path, nil)
			names, err := ruleNames(t, late)
			var d *Damage
			if names != c.left || !errors.As(err, &d) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("who did not: %q, %v", names, err)
			}
			if _, again := ruleNames(t, late); again == nil || again.Error() != err.Error() {
				t.Errorf("said differently again: %v", again)
			}
			put(t, late, "d")
			want := strings.TrimSpace(c.left + " d")
			for who, k := range map[string]*Keeper{"late": late, "first": first, "another": Open(path, nil)} {
				if names, err := ruleNames(t, k); names != want || err != nil {
					t.Errorf("%s after a change: %q, %v", who, names, err)
				}
			}
			if kept, err := os.ReadFile(path + ".broken"); !bytes.Equal(kept, damaged) || err != nil {
				t.Errorf("kept: %q, %v", kept, err)
			}
		})
	}
}

// without leaves out the nth line (from 0) that begins so.
func without(text []byte, begin string, n int) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte(begin)) {
			if n--; n == -1 {
				continue
			}
		}
		out = append(out, line...)
	}
	return out
}

// A number of a change stands for that change alone, also if it is lost; what is known of the trail stays.
func TestDamagedListCountsOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	k := Open(path, nil)
	for _, name := range []string{"a", "b", "c", "d"} {
		put(t, k, name)
	}
	damage(t, path, instead("path=/c", "path=/x"))
	late := Open(path, nil)
	put(t, late, "e")
	trail, err := late.Trail(t.Context(), 10)
	var versions []uint64
	for _, rec := range trail {
		versions = append(versions, rec.Version)
	}
	if want := []uint64{5, 2, 1}; !slices.Equal(versions, want) || err != nil {
		t.Errorf("%v, %v", versions, err)
	}
	if _, err := late.Apply(t.Context(), blocklist.Change{By: "x", Undo: 2}); err != nil {
		t.Errorf("what is before the damage cannot be taken back: %v", err)
	}
	if names, err := ruleNames(t, Open(path, nil)); names != "a e" || err != nil {
		t.Errorf("%q, %v", names, err)
	}
}

// Where the list's own block is damaged, the file before it has more.
func TestDamagedListAfterAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	k := Open(path, nil)
	put(t, k, "a")
	put(t, k, "b")
	k.mu.Lock()
	if err := k.fold(time.Now(), k.content, false); err != nil {
		t.Fatal(err)
	}
	k.mu.Unlock()
	put(t, k, "c")
	damage(t, path, instead("path=/a", "path=/x"))
	late := Open(path, nil)
	names, err := ruleNames(t, late)
	if want := "; list~ is in force in its place, of version 2, and the change to version 3 is not"; names != "a b" || err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%q, %v", names, err)
	}
	put(t, late, "d")
	if names, err := ruleNames(t, Open(path, nil)); names != "a b d" || err != nil {
		t.Errorf("%q, %v", names, err)
	}
}

// A second damaged file takes no other's place; and one that is mended by hand counts again.
func TestDamagedListsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	k := Open(path, nil)
	put(t, k, "a")
	for n, kept := range []string{".broken", ".broken.2", ".broken.3"} {
		damaged := damage(t, path, func([]byte) []byte { return fmt.Append(nil, "damage ", n) })
		put(t, k, fmt.Sprint("b", n))
		if text, err := os.ReadFile(path + kept); !bytes.Equal(text, damaged) || err != nil {
			t.Errorf("%s: %q, %v", kept, text, err)
		}
	}
	if text, err := os.ReadFile(path + ".broken"); string(text) != "damage 0" || err != nil {
		t.Errorf("the first is now %q, %v", text, err)
	}
	damage(t, path, instead("path=/a", "path=/x"))
	late := Open(path, nil)
	if names, err := ruleNames(t, late); names != "" || err == nil {
		t.Errorf("%q, %v", names, err)
	}
	damage(t, path, instead("path=/x", "path=/a"))
	if names, err := ruleNames(t, late); names != "a b0 b1 b2" || err != nil {
		t.Errorf("mended by hand: %q, %v", names, err)
	}
}

// Who has all of the list writes a damaged file anew once it stays as it is, and nobody else does.
func TestDamagedListIsMended(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	now := time.Now()
	clock := func() time.Time { return now }
	k := Open(path, clock)
	put(t, k, "a")
	put(t, k, "b")
	try := func(k *Keeper, damaged []byte) (mended bool) {
		t.Helper()
		k.mu.Lock()
		_ = k.refresh()
		mendable := k.mendable()
		k.mu.Unlock()
		if err := k.mend(); (err == nil) != mendable {
			t.Errorf("%v", err)
		}
		text, err := os.ReadFile(path)
		if err != nil || bytes.Equal(text, damaged) == mendable {
			t.Errorf("%q, %v", text, err)
		}
		return mendable
	}
	damaged := damage(t, path, instead("path=/b", "path=/x"))
	late := Open(path, clock)
	if try(k, damaged) || try(late, damaged) {
		t.Error("was not given a moment")
	}
	now = now.Add(mendAfter)
	if try(late, damaged) {
		t.Error("was mended by who does not have all of it")
	}
	if !try(k, damaged) {
		t.Error("was not mended")
	}
	for who, k := range map[string]*Keeper{"mender": k, "late": late, "another": Open(path, nil)} {
		if names, err := ruleNames(t, k); names != "a b" || err != nil {
			t.Errorf("%s: %q, %v", who, names, err)
		}
	}
	if text, err := os.ReadFile(path + ".broken"); !bytes.Equal(text, damaged) || err != nil {
		t.Errorf("kept: %q, %v", text, err)
	}

	newer := damage(t, path, func(text []byte) []byte {
		return append(text, block("change 9 by=x at=2026-12-24T18:00:00Z\nflag x=1\n")...)
	})
	try(k, newer)
	now = now.Add(mendAfter)
	if try(k, newer) {
		t.Error("what a newer version wrote was taken out without need")
	}
}

// Whoever watches a list hears of damage last, and of the end of it.
func TestDamagedListIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	put(t, Open(path, nil), "a", "b")
	damage(t, path, instead("path=/a", "path=/x"))
	k := Open(path, nil)
	ctx, stop := context.WithCancel(t.Context())
	var heard []string
	err := k.Watch(ctx, func(c blocklist.Content) { heard = append(heard, fmt.Sprint(c.Version)) }, func(err error) {
		heard = append(heard, fmt.Sprint(err))
		if err == nil {
			stop()
			return
		}
		damage(t, path, instead("path=/x", "path=/a"))
	})
	if len(heard) != 4 || heard[0] != "0" || !strings.HasPrefix(heard[1], path+": is damaged in ") || heard[2] != "1" || heard[3] != "<nil>" || !errors.Is(err, context.Canceled) {
		t.Errorf("%q, %v", heard, err)
	}
}

// Who does not have all of the list gives those who may have it the time to write it anew.
func TestDamagedListIsLeftToWhoHasIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	first := Open(path, nil)
	put(t, first, "a")
	put(t, first, "b")
	damage(t, path, instead("path=/b", "path=/x"))
	if err := os.Chtimes(path, time.Time{}, time.Now()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = first.Watch(ctx, func(blocklist.Content) {}, nil)
	}()
	late := Open(path, nil)
	late.patience = time.Minute
	put(t, late, "c")
	stop()
	<-ended
	if names, err := ruleNames(t, Open(path, nil)); names != "a b c" || err != nil {
		t.Errorf("%q, %v", names, err)
	}
}

// A path that was mistyped costs nobody a file.
func TestForeignFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(path, []byte("127.0.0.1 localhost\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k := Open(path, nil)
	for range 2 {
		_, err := k.Apply(t.Context(), blocklist.Change{By: "x", Put: []blocklist.Rule{keepertest.Rule(t, "c path=/c")}})
		if err == nil || !strings.Contains(err.Error(), path+": is no list, and is not written over: move it away") {
			t.Errorf("%v", err)
		}
	}
	if text, err := os.ReadFile(path); string(text) != "127.0.0.1 localhost\n" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

package source

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDamagedCopy(t *testing.T) {
	newest := func(t *testing.T, dir string) string {
		found, err := filepath.Glob(filepath.Join(dir, "*.list"))
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		return found[0]
	}
	damage := map[string]func(t *testing.T, dir string){
		"a byte": func(t *testing.T, dir string) {
			text, err := os.ReadFile(newest(t, dir))
			if err != nil {
				t.Fatal(err)
			}
			text[0] = '9'
			if err := os.WriteFile(newest(t, dir), text, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"half of it": func(t *testing.T, dir string) {
			if err := os.Truncate(newest(t, dir), 20); err != nil {
				t.Fatal(err)
			}
		},
		"no text": func(t *testing.T, dir string) {
			if err := os.Remove(newest(t, dir)); err != nil {
				t.Fatal(err)
			}
		},
		"no record": func(t *testing.T, dir string) {
			found, err := filepath.Glob(filepath.Join(dir, "*.json"))
			if err != nil || len(found) != 1 || os.WriteFile(found[0], []byte(`{"text": "../../etc/pass`), 0o600) != nil {
				t.Fatal(found, err)
			}
		},
		"a record that points elsewhere": func(t *testing.T, dir string) {
			found, err := filepath.Glob(filepath.Join(dir, "*.json"))
			if err != nil || len(found) != 1 || os.WriteFile(found[0], []byte(`{"text": "../other.list"}`), 0o600) != nil {
				t.Fatal(found, err)
			}
		},
	}
	for name, harm := range damage {
		t.Run(name, func(t *testing.T) {
			s := &server{answer: func(int) (*http.Response, error) { return answer(200, many(30), "ETag", `"a"`) }}
			how := Download{Dir: t.TempDir(), transport: s}
			source(t, example, how, Options{}).once(t)
			harm(t, how.Dir)

			d := source(t, example, how, Options{})
			p, err := d.Load()
			if damaged := name == "a byte" || name == "half of it"; p.Len() != 0 || (err != nil) != damaged {
				t.Errorf("got %+v, %v", p, err)
			}
			if err != nil && err.Error() != `source "https://example.com/list": copy of the last download: is damaged` {
				t.Errorf("got %v", err)
			}
			// All of it is asked for, and saved again.
			if _, differs, _ := d.once(t); !differs || s.header[1].Get("If-None-Match") != "" || d.Status().Error != "" || d.Status().Prefixes != 30 {
				t.Errorf("differs %t, asked with %v, %+v", differs, s.header[1], d.Status())
			}
			if p, err := source(t, example, how, Options{}).Load(); err != nil || p.Len() != 30 {
				t.Errorf("saved again: %v, %v", p.Len(), err)
			}
		})
	}
}

// TestCopiesAreSwept: one text and one record are left of each address, readable by nobody else.
func TestCopiesAreSwept(t *testing.T) {
	s := &server{answer: func(n int) (*http.Response, error) { return answer(200, many(20+n)) }}
	how := Download{Dir: filepath.Join(t.TempDir(), "deep", "down"), transport: s}
	d, other := source(t, example, how, Options{}), source(t, example+"/2", how, Options{})
	if err := os.MkdirAll(how.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(how.Dir, d.shelf.id+"-123.draft"), "left by who died")
	for range 3 {
		d.once(t)
		other.once(t)
	}
	entries, err := os.ReadDir(how.Dir)
	if err != nil || len(entries) != 4 {
		t.Errorf("%v, %v", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
}

// TestCopyCannotBeSaved: the list is in force, and it is said.
func TestCopyCannotBeSaved(t *testing.T) {
	s := &server{answer: func(int) (*http.Response, error) { return answer(200, many(3)) }}
	dir := filepath.Join(t.TempDir(), "file")
	write(t, dir, "not a directory")
	d := source(t, example, Download{Dir: dir, transport: s}, Options{})
	if p, differs, _ := d.once(t); !differs || p.Len() != 3 || !strings.HasPrefix(d.Status().Error, "could not be saved: ") || d.Status().Failures != 0 {
		t.Errorf("%v, %+v", p, d.Status())
	}
}

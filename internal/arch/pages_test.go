package arch

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maxReadme is the most lines of the README.
const maxReadme = 250

// links finds the targets of links in Markdown.
var links = regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)\s]*)?\)`)

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"README.md", "CHANGELOG.md"}
	for _, path := range found {
		all = append(all, filepath.Join("docs", filepath.Base(path)))
	}
	return all
}

// TestLinks wants every file that a page points to to exist.
func TestLinks(t *testing.T) {
	for _, page := range pages(t) {
		for _, m := range links.FindAllSubmatch(read(t, page), -1) {
			target := string(m[1])
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(page), target)); err != nil {
				t.Errorf("%s points to %s, which is not there", page, target)
			}
		}
	}
}

// TestReadme wants the README short, and every page and every example mentioned in it.
func TestReadme(t *testing.T) {
	text := read(t, "README.md")
	if n := bytes.Count(text, []byte("\n")); n > maxReadme {
		t.Errorf("README.md has %d lines, more than %d", n, maxReadme)
	}
	for _, page := range pages(t)[2:] {
		if !bytes.Contains(text, []byte(filepath.ToSlash(page))) {
			t.Errorf("README.md does not mention %s", page)
		}
	}
	for _, example := range examples(t) {
		if !bytes.Contains(text, []byte("examples/"+example)) {
			t.Errorf("README.md does not mention examples/%s", example)
		}
	}
}

func examples(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root, "examples"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	if len(all) == 0 {
		t.Fatal("no examples")
	}
	return all
}

// TestExamples wants of every example a Caddyfile that begins by saying what it is.
func TestExamples(t *testing.T) {
	for _, example := range examples(t) {
		lines := 0
		for line := range bytes.Lines(read(t, filepath.Join("examples", example, "Caddyfile"))) {
			if line[0] != '#' {
				break
			}
			lines++
		}
		if lines < 3 {
			t.Errorf("examples/%s/Caddyfile does not tell its use in a comment at its head", example)
		}
	}
}

// TestArchitecturePage wants every package named in docs/architecture.md, and no more.
func TestArchitecturePage(t *testing.T) {
	text := string(read(t, "docs/architecture.md"))
	for _, p := range packages(t) {
		if folder := p.folder(); folder != "" && !strings.Contains(text, folder+"/") {
			t.Errorf("docs/architecture.md does not mention %s/", folder)
		}
	}
	for _, named := range regexp.MustCompile("`((?:limiter|blocklist|internal|docs|examples)/[\\w./-]*)`").FindAllStringSubmatch(text, -1) {
		path := named[1]
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			t.Errorf("docs/architecture.md names %s, which is not there", path)
		}
	}
}

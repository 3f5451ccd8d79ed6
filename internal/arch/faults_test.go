package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	faultRow = regexp.MustCompile(`^\| ([LB]\d+) \| (.+) \| (.+) \| (.+) \|$`)
	// A test is cited as the file and, if that is Go, the function in it.
	citation = regexp.MustCompile("`([\\w./-]+\\.(go|txtar|trace|caddyfiletest))(?::(\\w+))?`")
)

// TestFaults wants of every row in docs/faults.md that the tests it cites exist, and that one
// of them names the row, so that nobody changes it unawares. A row that no test holds has to
// say why.
func TestFaults(t *testing.T) {
	seen := map[string]bool{}
	for line := range strings.Lines(string(read(t, "docs/faults.md"))) {
		row := faultRow.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if row == nil {
			if regexp.MustCompile(`^\| *[LB]\d`).MatchString(line) {
				t.Errorf("not a row of four columns: %s", line)
			}
			continue
		}
		id, held := row[1], row[4]
		if seen[id] {
			t.Errorf("%s stands twice", id)
		}
		seen[id] = true
		cited := citation.FindAllStringSubmatch(held, -1)
		switch {
		case len(cited) == 0 && held != "—":
			t.Errorf("%s cites nothing that is a test: %s", id, held)
		case len(cited) == 0 && !strings.Contains(row[3], "cannot happen") && !strings.Contains(row[3], "not built yet"):
			t.Errorf("%s has neither a test nor a reason: %s", id, row[3])
		case len(cited) != strings.Count(held, "`")/2:
			t.Errorf("%s: something in its last column is no citation: %s", id, held)
		}
		named := len(cited) == 0
		for _, c := range cited {
			text := cite(t, c[1], c[3])
			if text == "" {
				t.Errorf("%s cites %s, which is not there", id, c[0])
			}
			named = named || regexp.MustCompile(`\b`+id+`\b`).MatchString(text)
		}
		if !named {
			t.Errorf("%s: no test that it cites names it: %s", id, held)
		}
	}
	if len(seen) < 100 {
		t.Errorf("only %d rows", len(seen))
	}
}

// cite returns the text of a test, of a Go file that of one function with its comment; empty if
// there is none.
func cite(t *testing.T, path, function string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return ""
	}
	if !strings.HasSuffix(path, ".go") {
		return string(text)
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != function {
			continue
		}
		start := f.Pos()
		if f.Doc != nil {
			start = f.Doc.Pos()
		}
		return string(text[fset.Position(start).Offset:fset.Position(f.End()).Offset])
	}
	return ""
}

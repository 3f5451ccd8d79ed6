package arch

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	// maxFile is the most lines of a file that is not generated.
	maxFile = 400
	// maxFunc is the most lines of a function that is not a test.
	maxFunc = 60
)

// rootFiles are the Go files of the root package: no more, no fewer.
var rootFiles = []string{"caddyfile.go", "module.go", "ratelimit_test.go"}

// metricLabels are the labels that a metric may have: closed sets that come from the
// configuration, never from a client (faults L89).
var metricLabels = []string{"zone", "outcome", "store", "result", "rule", "source"}

// A source is one Go or Lua file of ours.
type source struct {
	path string // below the root
	text []byte
	file *ast.File // nil for Lua
	fset *token.FileSet
}

// sources reads all Go and Lua files of the repository.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if name == "bin" || name == "testdata" || name != ".." && strings.HasPrefix(name, ".") {
				return filepath.SkipDir
			}
			return nil
		}
		if ext := filepath.Ext(name); ext != ".go" && ext != ".lua" {
			return nil
		}
		below, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		s := source{path: filepath.ToSlash(below), fset: token.NewFileSet()}
		if s.text, err = os.ReadFile(path); err != nil {
			return err
		}
		if strings.HasSuffix(name, ".go") {
			s.file, err = parser.ParseFile(s.fset, path, s.text, parser.ParseComments)
		}
		all = append(all, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("only %d sources found", len(all))
	}
	return all
}

func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

func TestRootFiles(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(root, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range found {
		found[i] = filepath.Base(found[i])
	}
	if !slices.Equal(found, rootFiles) {
		t.Errorf("the root holds %q, want %q", found, rootFiles)
	}
}

func TestSizes(t *testing.T) {
	for _, s := range sources(t) {
		if s.file != nil && ast.IsGenerated(s.file) {
			continue
		}
		if n := bytes.Count(s.text, []byte("\n")); n > maxFile {
			t.Errorf("%s has %d lines, more than %d", s.path, n, maxFile)
		}
		if s.file == nil || s.test() {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1; n > maxFunc {
				t.Errorf("%s: %s has %d lines, more than %d", s.path, f.Name.Name, n, maxFunc)
			}
		}
	}
}

// TestDocs wants a comment on every exported name that is not in a test, and one package
// comment a package.
func TestDocs(t *testing.T) {
	documented := map[string]int{}
	for _, s := range sources(t) {
		if s.file == nil {
			continue
		}
		folder := filepath.Dir(s.path)
		documented[folder] += 0
		if s.file.Doc != nil {
			documented[folder]++
		}
		if s.test() {
			continue
		}
		for _, d := range s.file.Decls {
			for _, name := range undocumented(d) {
				t.Errorf("%s: %s has no comment", s.path, name)
			}
		}
	}
	for folder, n := range documented {
		if n != 1 {
			t.Errorf("package in %s has %d package comments, want 1", folder, n)
		}
	}
}

// undocumented lists the exported names that a declaration leaves without a comment.
func undocumented(d ast.Decl) []string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		// A method of an unexported type is met through an interface only.
		if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
			return []string{d.Name.Name}
		}
	case *ast.GenDecl:
		var names []string
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() && spec.Doc == nil && d.Doc == nil {
					names = append(names, spec.Name.Name)
				}
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					if name.IsExported() && spec.Doc == nil && spec.Comment == nil && d.Doc == nil {
						names = append(names, name.Name)
					}
				}
			}
		}
		return names
	}
	return nil
}

func exportedReceiver(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	kind := f.Recv.List[0].Type
	if star, ok := kind.(*ast.StarExpr); ok {
		kind = star.X
	}
	name, ok := kind.(*ast.Ident)
	return ok && name.IsExported()
}

// TestNoSleepAndNoSkip keeps tests fast and honest: time is passed in or polled for, and
// a test that cannot run here fails.
func TestNoSleepAndNoSkip(t *testing.T) {
	for _, s := range sources(t) {
		if !s.test() && !strings.HasPrefix(s.path, "limiter/storetest/") && !strings.HasPrefix(s.path, "internal/redistest/") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if inBubble(n) {
				return false
			}
			if sel, ok := n.(*ast.SelectorExpr); ok {
				x, _ := sel.X.(*ast.Ident)
				switch sel.Sel.Name {
				case "Sleep":
					if x != nil && x.Name == "time" {
						t.Errorf("%s sleeps", s.fset.Position(sel.Pos()))
					}
				case "Skip", "SkipNow", "Skipf":
					if x != nil && (x.Name == "t" || x.Name == "b" || x.Name == "tb") {
						t.Errorf("%s skips", s.fset.Position(sel.Pos()))
					}
				}
			}
			return true
		})
	}
}

// inBubble reports whether the code runs in a bubble of testing/synctest, where a sleep takes
// no time.
func inBubble(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	f, _ := call.Fun.(*ast.SelectorExpr)
	if f == nil {
		return false
	}
	x, _ := f.X.(*ast.Ident)
	return x != nil && x.Name == "synctest" && f.Sel.Name == "Test"
}

// TestMetricLabels wants every label of a metric on the closed list.
func TestMetricLabels(t *testing.T) {
	seen := 0
	for _, s := range sources(t) {
		if s.file == nil || s.test() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !strings.HasSuffix(sel.Sel.Name, "Vec") && sel.Sel.Name != "NewDesc" {
				return true
			}
			for _, arg := range call.Args {
				for _, label := range stringsIn(arg) {
					seen++
					if !slices.Contains(metricLabels, label) {
						t.Errorf("%s: label %q is not on the closed list", s.fset.Position(call.Pos()), label)
					}
				}
			}
			return true
		})
	}
	if seen == 0 {
		t.Error("no metric with labels was found: does this test still look in the right place?")
	}
}

// stringsIn returns the elements of a literal slice of strings.
func stringsIn(e ast.Expr) []string {
	list, ok := e.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	if _, ok := list.Type.(*ast.ArrayType); !ok {
		return nil
	}
	var all []string
	for _, element := range list.Elts {
		if lit, ok := element.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				all = append(all, text)
			}
		}
	}
	return all
}

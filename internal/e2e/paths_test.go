package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// spellings are ways to write the path of a file /docs/page.txt in a request line. The file
// server serves it for some of them, another file for some, and nothing for others.
var spellings = []string{
	"/docs/page.txt", "/docs/page.txt?x", "/docs/page.txt?", "//docs/page.txt", "/docs//page.txt", "///docs///page.txt",
	"/./docs/page.txt", "/docs/./page.txt", "/docs/././/page.txt", "/docs/../docs/page.txt", "/../docs/page.txt",
	"/../../docs/page.txt", "/docs/x/../page.txt", "/docs/page.txt/x/..", "/docs/page.txt/", "/docs/page.txt//",
	"/docs/page.txt/.", "/docs/page.txt/./", "/docs/page.txt/%2e", "/%64ocs/page.txt", "/docs/p%61ge.txt", "/docs/page%2Etxt",
	"/docs%2fpage.txt", "/docs%2Fpage.txt", "/%2fdocs%2fpage.txt", "/%2f%2fdocs/page.txt", "/docs/page.txt%2f", "/docs/%2e/page.txt",
	"/docs/%2e%2e/docs/page.txt", "/%2e%2e/docs/page.txt", "/docs/x/%2E%2E/page.txt", "/docs/x%2f..%2fpage.txt",
	"http://site.example/docs/page.txt", "http://site.example//docs/%70age.txt", "http://other.example/docs/page.txt",
	// Other files, or none.
	"/docs/page.txt;x", "/docs;x/page.txt", "/docs/page.txt;", "/docs/page.txt%3bx",
	"/docs/page.txt%00", "/docs/page.txt%00.html", "/docs%00/page.txt", "/docs/page.txt.", "/docs/page.txt%20", "/docs/page.txt%0a",
	`/docs\page.txt`, "/docs%5cpage.txt", `/docs\..\docs\page.txt`, "/docs/page.txt%3f", "/docs/page.txt%23x", "/docs/%252e/page.txt",
	"/docs%252fpage.txt", "/docs/page%252etxt", "/docs/page.txt/...", "/docs/.../page.txt", "/docs/..page.txt", "/docs/p*", "/docs/page.tx",
	"/docs%c0%afpage.txt", "/docs/page%ff.txt", "/docs/pa%cc%84ge.txt", "/docs/%u0070age.txt", "/docs/+page.txt", "/docs/page.txt+", "/",
}

// files are what the file server has; the text of each tells which it is.
var files = []string{
	"docs/page.txt", "docs/page.txt;x", "docs;x/page.txt", `docs\page.txt`, "docs/page.txt ", "docs/page.txt?",
	"docs/page.txt.", "docs/%2e/page.txt", "docs/.../page.txt", "docs/..page.txt", "docs/page\xff.txt", "docs/+page.txt", "index.html",
}

// TestPathsAsFilesAreServed asks a real file server, which does not insist on one spelling,
// for one file in every spelling: a rule for the file's path refuses just those requests that
// would have got it, and all of them spend one budget (L82, B40).
func TestPathsAsFilesAreServed(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, name := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("file /"+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const server = `
	root * {$ROOT}
	file_server {
		disable_canonical_uris
	}
}
`
	limits := serve(t, `:{$PORT} {
	rate_limit {
		zone files {
			key {path}
			limit 1000/1h
		}
	}`+server, "ROOT="+root)
	rules := serve(t, `:{$PORT} {
	block {
		rule exact {
			path /docs/page.txt
		}
	}
	block {
		rule below {
			path /docs/*ge.txt
			action 451
		}
	}`+server, "ROOT="+root)

	spent := make(map[string]int) // by file
	for _, target := range spellings {
		a := raw(t, limits.addr(), target)
		file := a.body
		if a.status != 200 {
			file = ""
		}
		if file != "" {
			spent[file]++
			if want := fmt.Sprint(1000 - spent[file]); file != "file /index.html" && a.left() != want {
				t.Errorf("%q is %s with %s left, want %s", target, file, a.left(), want)
			}
		}
		b := raw(t, rules.addr(), target)
		switch {
		case file == "file /docs/page.txt" && b.status != 403:
			t.Errorf("%q: is the file, and the rule does not see it: %d", target, b.status)
		case file != "file /docs/page.txt" && b.status == 403:
			t.Errorf("%q: is %q (%d), and the rule takes it for the file", target, file, a.status)
		case b.status == 200 && b.body != file:
			t.Errorf("%q: one server sends %q, the other %q", target, file, b.body)
		}
	}
	// A file in another case is another file here, and the same one on other systems: so keys
	// take them for one, and rules, which can say either, do not.
	for _, target := range []string{"/docs/Page.txt", "/DOCS/page.txt"} {
		spent["file /docs/page.txt"]++
		if a, want := raw(t, limits.addr(), target), fmt.Sprint(1000-spent["file /docs/page.txt"]); a.left() != want {
			t.Errorf("%q: %s left, want %s", target, a.left(), want)
		}
		if b := raw(t, rules.addr(), target); b.status == 403 {
			t.Errorf("%q: the rule takes it for the file", target)
		}
	}
	if n := spent["file /docs/page.txt"]; n < 30 {
		t.Errorf("only %d spellings got the file: says little", n)
	}
	for _, name := range files {
		if spent["file /"+name] == 0 {
			t.Errorf("no spelling got /%s", name)
		}
	}
}

// TestBlocksWhatPatternsSee: a star stands for any byte, decoded (B40).
func TestBlocksWhatPatternsSee(t *testing.T) {
	t.Parallel()
	s := serve(t, `:{$PORT} {
	block {
		rule admin {
			path /admin* *.php *secret*
		}
	}
	respond "through"
}
`)
	for target, want := range map[string]int{
		"/admin%0Ax": 403, "/admin%00": 403, "/admin%ff": 403, "/admin/": 403, "/admin%2fx": 403, "//admin": 403, "/x/..%2fadmin": 403,
		"/%61dmin": 403, "/x/../%61dmin%0d%0a": 403, "/a.php": 403, "/a.php/": 403, "/a.php%2f": 403, "/a.php/.": 403, "/a%2ephp": 403,
		"/a%0ab/secret%0a": 403, "/%73ecret": 403, "/Admin": 200, "/a.PHP": 200, "/a.php/x": 200, "/a.phpx": 200, "/administer": 403,
		"/%2561dmin": 200, "/sec%0aret": 200, "/?/admin": 200, "/x;/admin": 200,
	} {
		if a := raw(t, s.addr(), target); a.status != want {
			t.Errorf("%s: %d, want %d", target, a.status, want)
		}
	}
}

// Package page writes what was measured: as Markdown, between marks of a page whose other text
// stays, and as pictures.
package page

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// A Section is what one part of a measurement says.
type Section struct {
	// Name stands in the marks of the page.
	Name string
	// Said is what stands before the tables, paragraph by paragraph.
	Said   []string
	Tables []Table
	// Pictures by their file names.
	Pictures []Picture
}

// A Table has a sentence before it and a row for each thing measured.
type Table struct {
	Said string
	Head []string
	Rows [][]string
}

// A Picture is an SVG, and what it shows in words.
type Picture struct {
	File string // such as bench-http.svg
	Says string
	SVG  string
}

// Markdown writes a section. Pictures are looked for in the folder, as a page names it.
func (s *Section) Markdown(w io.Writer, pictures string) error {
	var b strings.Builder
	for _, text := range s.Said {
		b.WriteString(text + "\n\n")
	}
	for _, p := range s.Pictures {
		fmt.Fprintf(&b, "![%s](%s)\n\n", p.Says, pictures+"/"+p.File)
	}
	for _, t := range s.Tables {
		t.markdown(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *Table) markdown(b *strings.Builder) {
	if t.Said != "" {
		b.WriteString(t.Said + "\n\n")
	}
	row := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	row(t.Head)
	b.WriteString("|" + strings.Repeat("---|", len(t.Head)) + "\n")
	for _, cells := range t.Rows {
		row(cells)
	}
	b.WriteString("\n")
}

// Begin and End return the marks between which a section stands.
func Begin(name string) string { return "<!-- measured: " + name + " -->" }

// End returns the mark behind a section.
func End(name string) string { return "<!-- end of " + name + " -->" }

// Write puts a section between its marks on a page, and its pictures into a folder, which is
// named as seen from the page.
func (s *Section) Write(page, pictures string) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	var text strings.Builder
	if err := s.Markdown(&text, pictures); err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(old), Begin(s.Name)+"\n")
	_, after, ok2 := strings.Cut(rest, End(s.Name))
	if !ok || !ok2 {
		return fmt.Errorf("%s: has no place for these numbers: want the lines %s and %s", page, Begin(s.Name), End(s.Name))
	}
	folder := filepath.Join(filepath.Dir(page), filepath.FromSlash(pictures))
	if len(s.Pictures) > 0 {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	for _, p := range s.Pictures {
		if err := os.WriteFile(filepath.Join(folder, p.File), []byte(p.SVG), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(page, []byte(before+Begin(s.Name)+"\n\n"+text.String()+End(s.Name)+after), 0o644)
}

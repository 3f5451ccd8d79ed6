package page

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func section() *Section {
	return &Section{
		Name:     "speed",
		Said:     []string{"How fast."},
		Tables:   []Table{{Said: "By name.", Head: []string{"name", "ns"}, Rows: [][]string{{"a", "1"}}}},
		Pictures: []Picture{{File: "speed.svg", Says: "bars", SVG: "<svg/>"}},
	}
}

func TestWriteKeepsWhatIsAround(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "page.md")
	first := "# Speed\n\n<!-- measured: speed -->\n<!-- end of speed -->\n\nBy hand.\n"
	if err := os.WriteFile(path, []byte(first), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "# Speed\n\n<!-- measured: speed -->\n\nHow fast.\n\n![bars](img/speed.svg)\n\nBy name.\n\n" +
		"| name | ns |\n|---|---|\n| a | 1 |\n\n<!-- end of speed -->\n\nBy hand.\n"
	for range 2 { // what it wrote itself is replaced as well
		if err := section().Write(path, "img"); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("got %v:\n%s", err, got)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "img", "speed.svg")); err != nil || string(got) != "<svg/>" {
		t.Errorf("the picture: %q, %v", got, err)
	}
}

func TestWriteWantsMarks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("no marks\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := section().Write(path, "img")
	if err == nil || !strings.Contains(err.Error(), Begin("speed")) {
		t.Errorf("got %v", err)
	}
}

func TestPicturesAreXML(t *testing.T) {
	bars := &Bars{Title: "a < b", Groups: []Group{
		{Name: "one", Bars: []Bar{{Name: "x & y", Value: 2, Least: 1, Most: 3, Says: "2 [1, 3]", Ours: true}, {Name: "none"}}},
		{Name: "nothing"},
	}}
	curves := &Curves{Title: "t", Says: "worst", Curves: []Curve{{
		Name: "down", Each: 100 * time.Millisecond, From: time.Second, To: 2 * time.Second,
		Points: []time.Duration{time.Millisecond, 0, time.Hour, 1, time.Second},
	}, {Name: "empty"}}}
	lines := &Lines{Title: "t", Says: "each hour", Ticks: []string{"Monday", "Tuesday"}, Marks: []float64{0, 0.7}, MarkSays: "news", Panels: []Panel{
		{Name: "a & b", Unit: " MB", Lines: []Line{{Name: "one", Points: []float64{0, 3, 17}}, {Name: "two", Points: []float64{1}, Ours: true}}},
		{Name: "nothing", Lines: []Line{{}, {Points: []float64{0, 0}}}},
	}}
	for _, svg := range []string{bars.SVG(), curves.SVG(), lines.SVG(), (&Lines{}).SVG()} {
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v in\n%s", err, svg)
			}
		}
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("not a number in\n%s", svg)
		}
	}
}

// Scales have two to four steps of round numbers.
func TestSteps(t *testing.T) {
	for most, want := range map[float64]float64{0: 1, 1: 0.5, 1.9: 0.5, 2: 1, 4: 2, 9.9: 2, 10: 5, 17: 5, 250: 100} {
		if got := stepOf(most); got != want {
			t.Errorf("%g: steps of %g, want %g", most, got, want)
		}
	}
}

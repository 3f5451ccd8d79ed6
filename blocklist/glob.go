package blocklist

import (
	"bytes"
	"fmt"
	"strings"
)

// A glob is a compiled pattern: the literal pieces between its stars. Matching takes
// time linear in the text, whatever the pattern: the first and the last piece are
// anchored, and each piece between them is taken where it first occurs, which leaves
// the most room to those after it, so that nothing is ever tried again.
type glob struct {
	// pieces has one more entry than the pattern has stars; the first and the last
	// may be empty.
	pieces [][]byte
	// least is the shortest text that can match.
	least int
}

// newGlob compiles a pattern. With fold the pattern is brought to lower case, and so
// must be the texts.
func newGlob(pattern string, fold bool) (*glob, error) {
	if len(pattern) > MaxPattern {
		return nil, fmt.Errorf("must be at most %d bytes, got %d", MaxPattern, len(pattern))
	}
	var g glob
	parts := strings.Split(pattern, "*")
	for i, part := range parts {
		if part == "" && i > 0 && i < len(parts)-1 {
			continue // adjacent stars are one
		}
		piece := []byte(part)
		if fold {
			lower(piece)
		}
		g.pieces = append(g.pieces, piece)
		g.least += len(piece)
	}
	if stars := len(g.pieces) - 1; stars > MaxStars {
		return nil, fmt.Errorf("must have at most %d stars, got %d", MaxStars, stars)
	}
	return &g, nil
}

// any reports whether the pattern is nothing but stars.
func (g *glob) any() bool { return len(g.pieces) > 1 && g.least == 0 }

// exact reports whether the pattern has no star.
func (g *glob) exact() bool { return len(g.pieces) == 1 }

// match reports whether the whole text fits.
func (g *glob) match(text []byte) bool {
	first := g.pieces[0]
	if g.exact() {
		return bytes.Equal(first, text)
	}
	last := len(g.pieces) - 1
	if len(text) < g.least || !bytes.HasPrefix(text, first) || !bytes.HasSuffix(text, g.pieces[last]) {
		return false
	}
	text = text[len(first) : len(text)-len(g.pieces[last])]
	for _, piece := range g.pieces[1:last] {
		at := bytes.Index(text, piece)
		if at < 0 {
			return false
		}
		text = text[at+len(piece):]
	}
	return true
}

// lower brings the ASCII letters of a text to lower case, in place. Other letters are
// left alone: values are bytes, not always UTF-8.
func lower(text []byte) {
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			text[i] = c + ('a' - 'A')
		}
	}
}

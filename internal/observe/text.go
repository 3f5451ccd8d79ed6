package observe

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The most bytes of a text from a client that stand in a line of the log.
const (
	maxShown = 1024
	maxPath  = 128
)

// shown returns a text from a client as it may stand in the log: cut if it is long, and
// without the characters that a terminal or a viewer acts on. The encoders of logs escape
// those of ASCII, as they do bytes that are not UTF-8, but neither DEL nor those beyond.
func shown(text string) string { return shownIn(maxShown, text) }

// shownIn is shown with another length.
func shownIn(most int, text string) string {
	cut := ""
	if len(text) > most {
		text, cut = text[:most], "…"
	}
	return strings.Map(func(c rune) rune {
		if c >= ' ' && !unicode.IsPrint(c) {
			return utf8.RuneError
		}
		return c
	}, text) + cut
}

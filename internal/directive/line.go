package directive

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
)

// A Line is the first line of a directive.
type Line struct {
	// Matcher is the text of the matcher that stands first, "" if there is none.
	Matcher string
	// Set is what the matcher selects, nil for everything.
	Set caddy.ModuleMap
	// Args are the other arguments.
	Args []string
	// At is where the directive stands.
	At Place
}

// Begin reads a directive's first line up to its block. A first word that starts with
// / or @, or is *, is the matcher.
func Begin(h httpcaddyfile.Helper) (Line, error) {
	h.Next()
	line := Line{At: Here(h.Dispenser)}
	if word, ok := peek(h.Dispenser); ok && isMatcher(word) {
		set, err := h.ExtractMatcherSet()
		if err != nil {
			return line, line.At.Errorf("%w", err)
		}
		line.Matcher, line.Set = word, set
		h.Next() // the dispenser was reset
	}
	args, err := Words(h.Dispenser)
	line.Args = args
	return line, err
}

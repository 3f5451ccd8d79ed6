package feed

import "strings"

// Families of agents that have no name of their own.
const (
	noAgent = "none"
	browser = "browser"
)

// Family returns what an agent has in common with its like: its name without version and
// comment. Of `Mozilla/5.0 (compatible; X/1.0)` that is X, of any other Mozilla "browser", and of an
// agent without a name "none".
func Family(agent string) string {
	name := agent
	if rest, found := strings.CutPrefix(agent, "Mozilla/"); found {
		_, inside, found := strings.Cut(rest, "(compatible; ")
		if !found {
			return browser
		}
		name, _, _ = strings.Cut(inside, ";")
	}
	if i := strings.IndexAny(name, "/(;"); i >= 0 {
		name = name[:i]
	}
	words := strings.Fields(name)
	for i, word := range words {
		if i > 0 && strings.ContainsAny(word, ":0123456789") || strings.Trim(word, "-+,") == "" {
			words = words[:i] // what follows is about the feed, or about the readers behind it
			break
		}
	}
	if name = strings.Trim(strings.Join(words, " "), "-+, "); name == "" {
		return noAgent
	}
	return name
}

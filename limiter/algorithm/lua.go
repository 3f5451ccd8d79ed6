package algorithm

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed *.lua
var twins embed.FS

// adjustMark divides a twin's text: what decides and spends stands above it, what only
// corrections need below.
const adjustMark = "\n-- adjust: "

// Twin returns the Lua text of the algorithm of that name, without what only corrections
// need unless adjust is set. min_interval counts by the twin of token_bucket; asking for
// another that does not exist panics.
func Twin(name string, adjust bool) string {
	text, err := twins.ReadFile(name + ".lua")
	if err != nil {
		panic(fmt.Sprintf("algorithm %s has no twin: %v", name, err))
	}
	if adjust {
		return string(text)
	}
	head, _, _ := strings.Cut(string(text), adjustMark)
	return strings.TrimRight(head, "\n") + "\n"
}

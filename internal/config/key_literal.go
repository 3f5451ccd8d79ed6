package config

import (
	"fmt"
	"strings"
)

// lintLiterals warns of parts of a key that are constant and look as if a placeholder was
// meant: client_ip for {client_ip}, $remote_addr as in other servers.
func lintLiterals(r report, parts []string) {
	for i := 0; i < len(parts); i++ {
		meant := meantPlaceholder(parts[i])
		if parts[i] == "header" && i+1 < len(parts) && !strings.Contains(parts[i+1], "{") {
			i++
			meant = headerPrefix + parts[i]
		}
		switch {
		case meant != "":
			r.warn(fmt.Sprintf("%q is a text, the same for every request: did you mean {%s}?", parts[i], meant))
		case strings.HasPrefix(parts[i], "$"):
			r.warn(fmt.Sprintf("%q is a text, the same for every request: placeholders are written in braces", parts[i]))
		}
	}
}

// meantPlaceholder returns the name of the placeholder that a text was probably meant to be,
// in the form that JSON knows as well; nothing if it looks like no placeholder.
func meantPlaceholder(text string) string {
	if strings.ContainsAny(text, "{}") {
		return ""
	}
	switch name := strings.TrimPrefix(text, "$"); name {
	case "ip", "remote_ip", "remote_addr", "binary_remote_addr":
		return "http.vars.client_ip"
	case "remote_user", "user":
		return "http.auth.user.id"
	case "request_uri":
		return "http.request.uri"
	default:
		for _, f := range placeholderFamilies {
			if rest, ok := strings.CutPrefix(name, f.prefix); ok && (f.names == nil || f.names(rest)) {
				return name
			}
		}
		return longForm(name)
	}
}

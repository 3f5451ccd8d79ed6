package directive

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"
)

// A Place is where something stands in a Caddyfile: the file and the line, and how it
// was imported.
type Place string

// Here returns the place of d's current token.
func Here(d *caddyfile.Dispenser) Place {
	// The chain of imports is told by the dispenser's errors only.
	return Place(strings.TrimPrefix(d.Err("").Error(), ", at "))
}

// Errorf returns an error that names the place as a dispenser's errors do.
func (p Place) Errorf(format string, args ...any) error {
	return fmt.Errorf("%w, at %s", fmt.Errorf(format, args...), string(p))
}

// Warn logs a constant message about what stands at the place.
func (p Place) Warn(message, what string) {
	caddy.Log().Named("caddyfile").Warn(message, zap.String("what", what), zap.String("at", string(p)))
}

type defined[T any] struct {
	value T
	at    Place
}

// Agree notes in the state of an adaptation (the State of a Caddyfile helper) what a name
// of a kind is defined as, and where. A name that is defined again has to mean the
// same: differs names a field in which it does not, "" if there is none, and whether
// a warning will do.
func Agree[T any](state map[string]any, kind, name string, at Place, value T, differs func(a, b T) (field string, warn bool)) error {
	names, _ := state["weir."+kind].(map[string]defined[T])
	if names == nil {
		names = make(map[string]defined[T])
		state["weir."+kind] = names
	}
	first, known := names[name]
	if !known {
		names[name] = defined[T]{value: value, at: at}
		return nil
	}
	field, warn := differs(first.value, value)
	switch {
	case field == "":
	case warn:
		caddy.Log().Named("caddyfile").Warn("one name has two definitions",
			zap.String("kind", kind), zap.String("name", name), zap.String("field", field),
			zap.String("first", string(first.at)), zap.String("second", string(at)))
	default:
		return fmt.Errorf("%s: not the same in %s and %s; a %s has one definition: make them alike, or give one another name",
			field, first.at, at, kind)
	}
	return nil
}

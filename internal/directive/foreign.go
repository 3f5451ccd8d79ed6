package directive

import (
	"encoding/json"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// Module is an option with the name and the block of another Caddy module of a
// namespace, written to target under the JSON key that names a module there.
func Module(name, namespace, key string, target *json.RawMessage) Option {
	const usage = "<module...>"
	return Option{Name: name, Usage: usage, read: func(d *caddyfile.Dispenser) error {
		if !d.NextArg() {
			return d.Errf("%s: got no argument, write %q", name, name+" "+usage)
		}
		word := d.Val()
		module, err := caddyfile.UnmarshalModule(d, namespace+"."+word)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		*target = caddyconfig.JSONModuleObject(module, key, word, nil)
		return nil
	}}
}

// Durations is an option with a block of durations, written to target as an object.
func Durations(name string, target *json.RawMessage, words ...string) Option {
	table := func(spans map[string]caddy.Duration) Table {
		t := make(Table, len(words))
		for i, word := range words {
			t[i] = Args(word, "<duration>", 1, 1, func(args []string) error {
				var span caddy.Duration
				err := Span(args[0], &span)
				spans[word] = span
				return err
			})
		}
		return t
	}
	return Nested(name, "", 0, table(nil), func(b *Body) error {
		spans := make(map[string]caddy.Duration)
		err := b.Read(table(spans))
		*target = caddyconfig.JSON(spans, nil)
		return err
	})
}

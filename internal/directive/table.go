// Package directive reads the blocks of a Caddyfile by tables: an [Option] is a word
// with what follows it, a [Table] the words that a block may hold. The table checks
// what every option would have to check for itself: unknown words, repetition, the
// number of arguments, blocks where none belongs, and that an error names the option,
// the file and the line.
//
// Tables check shape. Whether a value makes sense is for the configuration to say,
// so that a user of JSON hears the same.
package directive

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// An Option is a word of a block, with what may follow it.
type Option struct {
	// Name is the word.
	Name string
	// Usage is what follows it, as error messages and docs write it: "<duration>".
	Usage string
	// Many lets the word stand more than once.
	Many bool
	// Inner holds the words of the option's own block.
	Inner Table

	// fits, if any, tells the words that the option stands for, which is then known
	// by a name for all of them.
	fits func(word string) bool
	// instead says what to write; the word is then no option, but a likely mistake.
	instead string
	// read is called with the word as the current token and consumes what follows.
	read func(d *caddyfile.Dispenser) error
}

// Many lets an option stand more than once.
func Many(o Option) Option {
	o.Many = true
	return o
}

// Instead is a word that is often written and is none, with what is to be written. The error
// names it; the list of known words does not.
func Instead(word, write string) Option {
	return Option{Name: word, instead: write}
}

// A Table lists the options of a block.
type Table []Option

// Read reads the block that opens at d, if one does, calling the option of each word.
func (t Table) Read(d *caddyfile.Dispenser) error {
	lines := make(map[string]int, len(t))
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		word := d.Val()
		o := t.find(word)
		if o == nil || o.instead != "" {
			return d.Err(t.unknown(word))
		}
		if line, ok := lines[word]; ok && !o.Many {
			return d.Errf("%s: already set in line %d", word, line)
		}
		lines[word] = d.Line()
		if err := o.read(d); err != nil {
			return err
		}
	}
	return nil
}

func (t Table) find(word string) *Option {
	for i := range t {
		if t[i].Name == word || t[i].fits != nil && t[i].fits(word) {
			return &t[i]
		}
	}
	return nil
}

// unknown says that there is no such word, and which there are. A word that is known
// one level below was probably meant to stand there.
func (t Table) unknown(word string) string {
	names := make([]string, 0, len(t))
	hint := ""
	for _, o := range t {
		if o.instead == "" {
			names = append(names, o.Name)
		}
		if inner := o.Inner.find(word); inner != nil && inner.instead == "" && hint == "" {
			hint = fmt.Sprintf(", it belongs in %s %s block", article(o.Name), o.Name)
		}
	}
	if o := t.find(word); o != nil {
		hint = fmt.Sprintf(", write %q", o.instead)
	}
	if near := nearest(word, names); near != "" && hint == "" {
		hint = fmt.Sprintf(", did you mean %q?", near)
	}
	return fmt.Sprintf("unknown word %q%s (known here: %s)", word, hint, strings.Join(names, ", "))
}

// article is the one before a word.
func article(word string) string {
	if strings.IndexByte("aeiou", word[0]) >= 0 {
		return "an"
	}
	return "a"
}

// Args is an option with min to max arguments; a max below zero is no bound. set
// gets them, and its error is put behind the option's name.
func Args(name, usage string, min, max int, set func(args []string) error) Option {
	return Option{Name: name, Usage: usage, read: func(d *caddyfile.Dispenser) error {
		args, err := arguments(d, name, usage, min, max)
		if err != nil {
			return err
		}
		if opensBlock(d) {
			return d.Errf("%s: takes no block", name)
		}
		if err := set(args); err != nil {
			return d.Errf("%s: %w", name, err)
		}
		return nil
	}}
}

// Each is a family of options of one argument, whose words are those that fit: `<status>
// <price>`. name stands for all of them in messages; set gets the word and its argument.
func Each(name, usage string, fits func(word string) bool, set func(word, arg string) error) Option {
	return Option{Name: name, Usage: usage, fits: fits, read: func(d *caddyfile.Dispenser) error {
		word := d.Val()
		return Args(word, usage, 1, 1, func(args []string) error { return set(word, args[0]) }).read(d)
	}}
}

// A Body is the block of an option that is being read.
type Body struct {
	// Args stand between the word and the block.
	Args []string
	// At is where the word stands.
	At Place

	d *caddyfile.Dispenser
}

// Read reads the block, if there is one.
func (b *Body) Read(t Table) error { return t.Read(b.d) }

// Nested is an option with args arguments and a block, which read has to read; args below
// zero stands for that many or more. inner holds the words of the block.
func Nested(name, usage string, args int, inner Table, read func(b *Body) error) Option {
	return Option{Name: name, Usage: usage, Inner: inner, read: func(d *caddyfile.Dispenser) error {
		return readBody(d, name, usage, args, read, func([]string) string { return name })
	}}
}

// Named is an option with a name and a block, which may stand many times: `zone api {`.
// Errors carry the name.
func Named(name string, inner Table, read func(b *Body) error) Option {
	const usage = "<name>"
	return Option{Name: name, Usage: usage, Inner: inner, Many: true, read: func(d *caddyfile.Dispenser) error {
		return readBody(d, name, usage, 1, read, func(args []string) string {
			return fmt.Sprintf("%s %q", name, args[0])
		})
	}}
}

func readBody(d *caddyfile.Dispenser, name, usage string, n int, read func(b *Body) error, label func(args []string) string) error {
	at, most := Here(d), n
	if n < 0 {
		n, most = -n, -1
	}
	args, err := arguments(d, name, usage, n, most)
	if err != nil {
		return err
	}
	if err := read(&Body{Args: args, At: at, d: d}); err != nil {
		return fmt.Errorf("%s: %w", label(args), err)
	}
	return nil
}

// Words returns the arguments that follow on the line.
func Words(d *caddyfile.Dispenser) ([]string, error) {
	var words []string
	for d.NextArg() {
		if t := d.Token(); t.Text == "}" && !t.Quoted() {
			return nil, d.Err("a closing brace needs a line of its own")
		}
		words = append(words, d.Val())
	}
	return words, nil
}

func arguments(d *caddyfile.Dispenser, name, usage string, min, max int) ([]string, error) {
	args, err := Words(d)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(args) < min || max >= 0 && len(args) > max {
		return nil, d.Errf("%s: got %s, write %q", name, count(len(args)), strings.TrimSpace(name+" "+usage))
	}
	return args, nil
}

func count(n int) string {
	switch n {
	case 0:
		return "no argument"
	case 1:
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", n)
}

// opensBlock reports whether the next token opens a block.
func opensBlock(d *caddyfile.Dispenser) bool {
	if !d.Next() {
		return false
	}
	t := d.Token()
	d.Prev()
	return t.Text == "{" && !t.Quoted()
}

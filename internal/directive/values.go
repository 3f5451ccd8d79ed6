package directive

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Text is an option with one argument, taken as it stands. It cannot be empty: in the
// configuration that stands for the default.
func Text[T ~string](name, usage string, target *T) Option {
	return Args(name, usage, 1, 1, func(args []string) error {
		if args[0] == "" {
			return errors.New("must not be empty")
		}
		*target = T(args[0])
		return nil
	})
}

// Texts is an option with one or more arguments, taken as they stand.
func Texts[T ~[]string](name, usage string, target *T) Option {
	return Args(name, usage, 1, -1, func(args []string) error {
		*target = append(*target, args...)
		return nil
	})
}

// Flag is an option without arguments: standing there turns it on.
func Flag(name string, target *bool) Option {
	return Args(name, "", 0, 0, func([]string) error {
		*target = true
		return nil
	})
}

// OneOf is an option with one of a few words.
func OneOf(name string, target *string, words ...string) Option {
	return Args(name, strings.Join(words, "|"), 1, 1, func(args []string) error {
		if err := Choose(args[0], words); err != nil {
			return err
		}
		*target = args[0]
		return nil
	})
}

// Choose says whether a word is one of words.
func Choose(word string, words []string) error {
	if slices.Contains(words, word) {
		return nil
	}
	hint := ""
	if near := nearest(word, words); near != "" {
		hint = fmt.Sprintf(", did you mean %q?", near)
	}
	return fmt.Errorf("unknown word %q%s (known here: %s)", word, hint, strings.Join(words, ", "))
}

// Count is an option with a whole number of at least 1: zero stands for the default
// in the configuration, so that a written zero would not mean what it says.
func Count[T int | int64](name, usage string, target *T) Option {
	return Args(name, usage, 1, 1, func(args []string) error {
		return Whole(args[0], 1, target)
	})
}

// maxNumber and maxSpan are the most that is read: the adapter takes all numbers
// through floating point, which keeps no more of them exactly, or rounds a longer
// span up to one that is too long.
const (
	maxNumber = 1 << 53
	maxSpan   = 1 << 62
)

// Whole reads a whole number that is not below least.
func Whole[T int | int64](text string, least T, target *T) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if errors.Is(err, strconv.ErrRange) || int64(T(n)) != n || n > maxNumber {
		return fmt.Errorf("out of range, got %s", text)
	}
	if err != nil {
		return fmt.Errorf("must be a whole number, got %q", text)
	}
	if T(n) < least {
		return fmt.Errorf("must be at least %d, got %d", least, n)
	}
	*target = T(n)
	return nil
}

// Fraction is an option with a number such as 0.2.
func Fraction(name string, target *float64) Option {
	return Args(name, "<fraction>", 1, 1, func(args []string) error {
		f, err := strconv.ParseFloat(args[0], 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("must be a number such as 0.2, got %q", args[0])
		}
		*target = f
		return nil
	})
}

// Duration is an option with a duration above zero, such as 500ms, 1h30m or 7d.
func Duration(name string, target *caddy.Duration) Option {
	return Args(name, "<duration>", 1, 1, func(args []string) error {
		return Span(args[0], target)
	})
}

// Span reads a duration above zero.
func Span(text string, target *caddy.Duration) error {
	span, err := caddy.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("must be a duration such as 500ms, 30s or 1d, got %q", text)
	}
	if span <= 0 {
		return fmt.Errorf("must be positive, got %s", span)
	}
	if span > maxSpan {
		return fmt.Errorf("out of range, got %s", text)
	}
	*target = caddy.Duration(span)
	return nil
}

// Size is an option with a number of bytes, such as 32MiB.
func Size(name string, target *int64) Option {
	return Args(name, "<size>", 1, 1, func(args []string) error {
		return Bytes(args[0], target)
	})
}

// units are what sizes may be written in.
var units = []struct {
	name  string
	bytes int64
}{
	{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}, {"", 1},
}

// Bytes reads a number of bytes above zero: 32MiB, 500kB, 65536.
func Bytes(text string, target *int64) error {
	for _, u := range units {
		digits, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		var n int64
		if err := Whole(digits, 1, &n); err != nil {
			if strings.Trim(digits, "0123456789") != "" || digits == "" {
				return fmt.Errorf("must be a size such as 65536, 500kB or 32MiB, got %q", text)
			}
			return err
		}
		if n > maxNumber/u.bytes {
			return fmt.Errorf("out of range, got %s", text)
		}
		*target = n * u.bytes
		return nil
	}
	return nil
}

// Rate reads a rate, events in a window: 10/s, 100/1m, 60/h, 1000/1d. A bare unit
// means one of it.
func Rate(text string) (events int64, window caddy.Duration, err error) {
	count, span, _ := strings.Cut(text, "/")
	if !strings.ContainsAny(span, "0123456789") {
		span = "1" + span
	}
	if _, err := caddy.ParseDuration(span); err != nil {
		return 0, 0, fmt.Errorf("must be a rate such as 10/s, 100/1m or 1000/1d, in ms, s, m, h or d, got %q", text)
	}
	if err := Whole(count, 1, &events); err != nil {
		return 0, 0, fmt.Errorf("rate %q: events: %w", text, err)
	}
	if err := Span(span, &window); err != nil {
		return 0, 0, fmt.Errorf("rate %q: window: %w", text, err)
	}
	return events, window, nil
}

// AppendRanges appends addresses and CIDR ranges, if that is what they are. The word
// private_ranges stands for the private networks, as in Caddy's own directives.
func AppendRanges(target *[]string, words []string) error {
	for _, w := range words {
		if w == "private_ranges" {
			*target = append(*target, caddyhttp.PrivateRangesCIDR()...)
			continue
		}
		_, notAddr := netip.ParseAddr(w)
		_, notPrefix := netip.ParsePrefix(w)
		if notAddr != nil && notPrefix != nil {
			return fmt.Errorf("must be an address or a CIDR range, got %q", w)
		}
		*target = append(*target, w)
	}
	return nil
}

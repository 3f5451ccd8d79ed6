package config

import (
	"errors"
	"fmt"

	"go.uber.org/zap"
)

// A report gathers what is wrong with a configuration, everything under the user's
// own path to it. Problems refuse the configuration, warnings advise.
type report struct {
	path string
	*findings
}

type findings struct {
	problems []error
	warnings []warning
}

// A warning is a constant message about the place in the configuration that it
// concerns.
type warning struct {
	path, message string
}

func newReport() report { return report{findings: new(findings)} }

// in returns the same report one step deeper in the configuration.
func (r report) in(format string, args ...any) report {
	step := fmt.Sprintf(format, args...)
	if r.path != "" {
		step = r.path + ": " + step
	}
	return report{path: step, findings: r.findings}
}

// problem adds an error, if it is one.
func (r report) problem(err error) {
	switch {
	case err == nil:
	case r.path == "":
		r.problems = append(r.problems, err)
	default:
		r.problems = append(r.problems, fmt.Errorf("%s: %w", r.path, err))
	}
}

func (r report) problemf(format string, args ...any) {
	r.problem(fmt.Errorf(format, args...))
}

func (r report) warn(message string) {
	r.warnings = append(r.warnings, warning{r.path, message})
}

// err joins all problems into one error; nil if there are none.
func (r report) err() error { return errors.Join(r.problems...) }

// log writes the warnings.
func (r report) log(logger *zap.Logger) {
	for _, w := range r.warnings {
		logger.Warn(w.message, zap.String("at", w.path))
	}
}

// oneOf says that a word is none of those there are. An empty word stands for the
// default.
func (r report) oneOf(word string, words ...string) {
	if word == "" {
		return
	}
	for _, w := range words {
		if w == word {
			return
		}
	}
	r.problemf("must be %s, got %q", list(words), word)
}

// list writes words as an English enumeration.
func list(words []string) string {
	text := words[0]
	for i, w := range words[1:] {
		if i == len(words)-2 {
			text += " or " + w
		} else {
			text += ", " + w
		}
	}
	return text
}

// between says that a number is outside its range. Zero stands for the default.
func (r report) between(n, low, high int) {
	if n != 0 && (n < low || n > high) {
		r.problemf("must be between %d and %d, got %d", low, high, n)
	}
}

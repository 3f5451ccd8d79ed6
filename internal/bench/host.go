package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirhq/caddy-weir/internal/redistest"
)

// A host is what redistest wants of a test, for a program that is none.
type host struct {
	testing.TB // nil: what is not below is not used

	cleanups []func()
	troubles []string
}

// failure is what Fatal panics with.
type failure string

// hosting calls do with a host, ends what was started with it, and returns what went wrong.
func hosting(do func(h *host) error) (err error) {
	h := &host{}
	defer func() {
		r := recover()
		h.clean()
		f, failed := r.(failure)
		switch {
		case failed:
			err = errors.New(string(f))
		case r != nil:
			panic(r)
		case err == nil && len(h.troubles) > 0:
			err = errors.New(strings.Join(h.troubles, "; "))
		}
	}()
	return do(h)
}

func (h *host) clean() {
	for _, f := range slices.Backward(h.cleanups) {
		f()
	}
}

func (*host) Helper()             {}
func (*host) Logf(string, ...any) {}

func (h *host) Cleanup(f func()) { h.cleanups = append(h.cleanups, f) }

func (h *host) Errorf(format string, args ...any) {
	h.troubles = append(h.troubles, fmt.Sprintf(format, args...))
}

func (*host) Fatal(args ...any) { panic(failure(strings.TrimSpace(fmt.Sprintln(args...)))) }

func (*host) Fatalf(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }

// pidOf returns the process of a server.
func pidOf(s *redistest.Server) (int, error) {
	text, err := info(s, "server", "process_id")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// info returns a number or a word that a server tells of itself.
func info(s *redistest.Server, section, name string) (string, error) {
	for line := range strings.Lines(s.Do("INFO " + section)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("the redis-server does not tell its %s", name)
}

// usedMemory returns how many bytes a server has allocated.
func usedMemory(s *redistest.Server) (float64, error) {
	text, err := info(s, "memory", "used_memory")
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}

package storetest

import (
	"bufio"
	"embed"
	"fmt"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// traceFiles are stories about one key. A line is empty, a comment after '#', a limit that
// holds from there on, or a step:
//
//	limit <events>/<window> <algorithm> [burst <n>] [count_rejected <ceiling>]
//	at <time> <action>: <what is seen>, …
//
// Times are counted from the beginning of the trace. Actions are
//
//	take <cost> [x<times>] [as <lease>]   look    release <lease>   reset
//	give back <n> of <time>   grant <n>   charge <n>
//
// and what may be seen is
//
//	allowed   refused   <n> left   wait <duration>|never   reset <duration>
//
//go:embed testdata/*.trace
var traceFiles embed.FS

func traces(t *testing.T, open Open) {
	files, err := traceFiles.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := file.Name()
		t.Run(strings.TrimSuffix(name, ".trace"), func(t *testing.T) {
			text, err := traceFiles.ReadFile(path.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			clock := NewClock()
			s := story{desk: desk{t: t, clock: clock, store: open(t, clock.Now)}, start: clock.Now()}
			lines := bufio.NewScanner(strings.NewReader(string(text)))
			for n := 1; lines.Scan(); n++ {
				line, _, _ := strings.Cut(lines.Text(), "#")
				if line = strings.TrimSpace(line); line == "" {
					continue
				}
				if err := s.tell(line); err != nil {
					t.Errorf("%s:%d: %s\n\t%v", name, n, line, err)
				}
			}
		})
	}
}

// story is a trace on its way.
type story struct {
	desk
	start time.Time
	limit *limiter.Limit
}

// tell plays one line and returns what was not as it says.
func (s *story) tell(line string) error {
	if words := strings.Fields(line); words[0] == "limit" {
		l, err := parseLimit(words[1:])
		s.limit = l
		return err
	}
	step, seen, ok := strings.Cut(line, ":")
	words := strings.Fields(step)
	if !ok || len(words) < 3 || words[0] != "at" || s.limit == nil {
		return fmt.Errorf("not a step: want at <time> <action>: <what is seen>, under a limit")
	}
	at, err := time.ParseDuration(words[1])
	if err != nil {
		return err
	}
	s.clock.Advance(s.start.Add(at).Sub(s.clock.Now()))
	results, err := s.act(words[2:])
	if err != nil {
		return err
	}
	return compare(results, seen)
}

// act does what a step says and returns the answers, of which a repeated take has several.
func (s *story) act(words []string) ([]limiter.Result, error) {
	const key = "k"
	change := limiter.Change{Limit: s.limit, Key: key}
	number := func(word int, sign int64) (err error) {
		if word >= len(words) {
			return fmt.Errorf("%s: a number is missing", words[0])
		}
		change.Delta, err = strconv.ParseInt(words[word], 10, 64)
		change.Delta *= sign
		return err
	}
	switch words[0] {
	case "take":
		return s.repeat(words[1:], key)
	case "look":
	case "reset":
		if err := s.store.Reset(s.t.Context(), s.limit, key); err != nil {
			return nil, err
		}
	case "release":
		a := limiter.Ask{Limit: s.limit, Key: key, Lease: strings.Join(words[1:], " ")}
		if err := s.store.Release(s.t.Context(), []limiter.Ask{a}); err != nil {
			return nil, err
		}
	case "give":
		if len(words) != 5 || words[1] != "back" || words[3] != "of" {
			return nil, fmt.Errorf("want give back <n> of <time>")
		}
		spent, err := time.ParseDuration(words[4])
		if err != nil {
			return nil, err
		}
		change.Spent = limiter.At(s.start.Add(spent))
		if err := number(2, -1); err != nil {
			return nil, err
		}
		s.adjust(change)
	case "grant", "charge":
		sign := int64(1)
		if words[0] == "grant" {
			sign = -1
		}
		if err := number(1, sign); err != nil {
			return nil, err
		}
		s.adjust(change)
	default:
		return nil, fmt.Errorf("unknown action %q", words[0])
	}
	return []limiter.Result{s.left(s.limit, key)}, nil
}

// repeat takes a cost, several times if the step says so, each with a lease of its own.
func (s *story) repeat(words []string, key string) ([]limiter.Result, error) {
	if len(words) == 0 {
		return nil, fmt.Errorf("take: what?")
	}
	cost, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		return nil, err
	}
	times, lease := 1, ""
	for i := 1; i < len(words); i++ {
		count, isCount := strings.CutPrefix(words[i], "x")
		switch {
		case words[i] == "as" && i+2 == len(words):
			i++
			lease = words[i]
		case isCount:
			if times, err = strconv.Atoi(count); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("take: unexpected %q", words[i])
		}
	}
	var results []limiter.Result
	for range times {
		results = append(results, s.take(limiter.Ask{Limit: s.limit, Key: key, Cost: cost, Lease: lease})...)
	}
	return results, nil
}

// compare checks what is said about answers: whether each was allowed, and the numbers of
// the last.
func compare(results []limiter.Result, seen string) error {
	last := results[len(results)-1]
	for _, part := range strings.Split(seen, ",") {
		words := strings.Fields(part)
		switch {
		case len(words) == 1 && (words[0] == "allowed" || words[0] == "refused"):
			for i, r := range results {
				if r.Allowed != (words[0] == "allowed") {
					return fmt.Errorf("answer %d: %+v", i+1, r)
				}
			}
		case len(words) == 2 && words[1] == "left":
			if strconv.FormatInt(last.Remaining, 10) != words[0] {
				return fmt.Errorf("%d left", last.Remaining)
			}
		case len(words) == 2 && (words[0] == "wait" || words[0] == "reset"):
			got := last.Wait
			if words[0] == "reset" {
				got = last.Reset
			}
			want := limiter.Never
			if words[1] != "never" {
				var err error
				if want, err = time.ParseDuration(words[1]); err != nil {
					return err
				}
			}
			// Stores may keep times in units of 8 µs, rounded up.
			if got < want || got-want >= 8*time.Microsecond {
				return fmt.Errorf("%s %s", words[0], got)
			}
		default:
			return fmt.Errorf("cannot compare with %q", part)
		}
	}
	return nil
}

// parseLimit reads the words behind "limit".
func parseLimit(words []string) (*limiter.Limit, error) {
	if len(words) < 2 || len(words)%2 != 0 {
		return nil, fmt.Errorf("want <events>/<window> <algorithm> and pairs of options")
	}
	events, window, _ := strings.Cut(words[0], "/")
	l := &limiter.Limit{Zone: "trace", Algorithm: words[1]}
	var err error
	if l.Events, err = strconv.ParseInt(events, 10, 64); err != nil {
		return nil, err
	}
	if l.Window, err = time.ParseDuration(window); err != nil {
		return nil, err
	}
	for i := 2; i < len(words); i += 2 {
		switch words[i] {
		case "burst":
			l.Burst, err = strconv.ParseInt(words[i+1], 10, 64)
		case "count_rejected":
			l.Ceiling, err = time.ParseDuration(words[i+1])
		default:
			err = fmt.Errorf("unknown option %q", words[i])
		}
		if err != nil {
			return nil, err
		}
	}
	return l, l.Check()
}

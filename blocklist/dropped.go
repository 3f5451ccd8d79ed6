package blocklist

import (
	"fmt"
	"strings"
	"time"
)

// Dropped says what a worker does with a job that a rule drops. Its zero value is to throw it
// away.
type Dropped struct {
	// Fate of the job. Default: Drop.
	Fate Fate
	// After is how long to wait before the job is tried again; only with Retry, and then
	// positive, in whole milliseconds.
	After time.Duration
}

// Fate is what becomes of a dropped job.
type Fate uint8

// The fates.
const (
	Drop       Fate = iota // forget it
	Retry                  // try it again later
	DeadLetter             // put it aside, for people to look at
)

var fates = [...]string{Drop: "drop", Retry: "retry", DeadLetter: "dead_letter"}

// String returns the fate's word.
func (f Fate) String() string { return wordOf(fates[:], int(f)) }

// String returns drop, dead_letter or retry:30s.
func (d Dropped) String() string {
	if d.Fate == Retry {
		return d.Fate.String() + ":" + d.After.String()
	}
	return d.Fate.String()
}

// ParseDropped reads what String writes, and checks it.
func ParseDropped(text string) (Dropped, error) {
	word, after, timed := strings.Cut(text, ":")
	fate, err := parseWord(fates[:], word)
	if err != nil {
		return Dropped{}, err
	}
	d := Dropped{Fate: Fate(fate)}
	if timed {
		if d.After, err = time.ParseDuration(after); err != nil {
			return Dropped{}, fmt.Errorf("%s: must be a duration such as 30s, got %q", word, after)
		}
	}
	return d, d.check()
}

func (d Dropped) check() error {
	switch {
	case int(d.Fate) >= len(fates):
		return fmt.Errorf("no fate %d", d.Fate)
	case d.Fate == Retry && (d.After < time.Millisecond || d.After%time.Millisecond != 0):
		return fmt.Errorf("retry: must say after how long, in whole milliseconds, got %s", d.After)
	case d.Fate != Retry && d.After != 0:
		return fmt.Errorf("%s: takes no duration", d.Fate)
	}
	return nil
}

package blocklist

import (
	"context"
	"errors"
)

// The shared list: rules and bans that are made while servers run, at one version after the
// other. A [Content] is the list at one version, a [Change] leads to the next, and a [Keeper]
// stores them where several servers, and tools beside them, find them.
//
// Content differs from a plain struct of slices in one thing: a million bans, of which one
// comes or goes many times a second, must not be copied for each. So Rules are pointers, which
// stay the same as long as the rule does, and Bans is an immutable set ([Bans.All] walks it),
// of which a change makes the next at the cost of what it changes.

// A Keeper stores the shared list. It is safe for concurrent use, and several keepers, in
// several processes, may store one list.
type Keeper interface {
	// Load reads the list as it is now. A list that has never been written is empty, at
	// version 0.
	Load(ctx context.Context) (Content, error)
	// Apply makes a change, whole or not at all, and returns the version it led to. It
	// completes the change first, see [Change.Prepare]. An error that wraps [ErrRefused] is the
	// change's own fault; after any other one the change may, or may not, have been made.
	Apply(ctx context.Context, c Change) (uint64, error)
	// Watch calls changed with the list as it is, and then with each one after it, until ctx
	// is done, and then returns its error. It hears of changes at once if it can, looks
	// itself at least every minute or so, and tries again for as long as the list cannot be
	// read. Versions may be passed over, and never go back but for a list that was lost.
	// What goes wrong meanwhile is told to trouble, if that is not nil; with nil once
	// it is over.
	Watch(ctx context.Context, changed func(Content), trouble func(error)) error
	// Trail returns the last n changes, the latest first. Of older ones none may be left.
	Trail(ctx context.Context, n int) ([]Record, error)
}

// ErrRefused is wrapped by errors that say what is wrong with a change.
var ErrRefused = errors.New("the change is refused")

// Refuse marks an error as the fault of a change, unless it is nil.
func Refuse(err error) error {
	if err == nil || errors.Is(err, ErrRefused) {
		return err
	}
	return refused{err}
}

// refused adds no words of its own: the user knows that his change was not made.
type refused struct{ error }

func (e refused) Unwrap() []error { return []error{ErrRefused, e.error} }

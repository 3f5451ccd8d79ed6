package blocklist

import (
	"sync/atomic"
	"time"
)

// A List holds the set that counts now, and lets it be swapped while requests are
// matched. The zero value is an empty list. It is safe for concurrent use and must not be
// copied.
type List struct {
	set atomic.Pointer[Set]
}

// NewList returns a list that begins with a set.
func NewList(s *Set) *List {
	l := new(List)
	l.Swap(s)
	return l
}

// Swap puts a set in the place of the one before. Requests that are being matched end
// with the old one. A nil set empties the list.
func (l *List) Swap(s *Set) { l.set.Store(s) }

// Match asks the set of the moment, see [Set.Match].
func (l *List) Match(r *Request, now time.Time, dry []*Rule) (*Rule, []*Rule) {
	return l.set.Load().Match(r, now, dry)
}

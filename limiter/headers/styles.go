// Package headers tells clients in response fields how much they have left.
//
// There are two families of fields: the legacy X-RateLimit-Limit, -Remaining and
// -Reset, which most clients know, and RateLimit with RateLimit-Policy of
// draft-ietf-httpapi-ratelimit-headers-10. Both are written from one and the same
// limit, the one that is nearest to exhaustion.
//
// What the numbers mean:
//
//   - Limit and q are the most that can be left: a limit's events, or the burst of a
//     token bucket.
//   - Remaining and r are what is left, between 0 and that.
//   - w is the window in seconds. For a token bucket it is the time in which an
//     empty bucket fills, so that q and w together say its rate.
//   - Reset and t are seconds from now: on an allowed request until the key is as
//     good as new, on a refused one until the same request would pass.
//
// Seconds are whole and rounded up, so that no client comes back too early.
package headers

import (
	"fmt"
	"net/http"

	"github.com/weirhq/caddy-weir/limiter"
)

// A Style is the set of header families that are written. The zero value is Off.
type Style uint8

// The styles.
const (
	Off    Style = 0
	Legacy Style = 1 << 0
	Draft  Style = 1 << 1
	Both   Style = Legacy | Draft
)

// words holds each style's word in configurations.
var words = [...]string{Off: "off", Legacy: "legacy", Draft: "draft", Both: "both"}

// Parse returns the style of that word: off, legacy, draft or both.
func Parse(word string) (Style, error) {
	for s, w := range words {
		if w == word {
			return Style(s), nil
		}
	}
	return Off, fmt.Errorf("headers: must be one of legacy, draft, both, off, got %q", word)
}

// String returns the style's word.
func (s Style) String() string { return words[s&Both] }

// The fields, in the canonical form in which Go stores them.
const (
	legacyLimit     = "X-Ratelimit-Limit"
	legacyRemaining = "X-Ratelimit-Remaining"
	legacyReset     = "X-Ratelimit-Reset"
	draftPolicy     = "Ratelimit-Policy"
	draftLimit      = "Ratelimit"
)

// Write sets the fields of style s for the limit of d that is nearest to exhaustion,
// and nothing if d has no such limit.
//
// If h already holds rate limit fields, those of an earlier step of the same request,
// they are replaced only when d refuses or has less left. Families that are replaced
// then include those the earlier step wrote, so that all fields speak of one limit.
func Write(h http.Header, s Style, d *limiter.Decision) {
	if s&Both == Off || d.Nearest < 0 {
		return
	}
	n := numbersOf(&d.Asks[d.Nearest], &d.Results[d.Nearest])
	if old, family := written(h); family != Off {
		if d.Allowed && !n.tighter(old) {
			return
		}
		s |= family
	}
	write(h, s, n)
}

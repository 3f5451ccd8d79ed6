package config

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/internal/copies"
	"github.com/weirhq/caddy-weir/internal/observe"
)

// Bounds of what a zone keeps of answers, in bytes.
const (
	defaultCopyMemory = 32 << 20
	leastCopyMemory   = 64 << 10
	mostCopyMemory    = 1 << 40
)

// mostWaiting is how many requests of a zone wait at most for others that are under way.
const mostWaiting = 10_000

// A copiesKey names the copies of a zone in the pool: they survive a reload.
type copiesKey struct{ zone string }

type pooledCopies struct {
	shelf   *copies.Shelf
	flights *copies.Flights
	uncount func()
}

// Destruct implements [caddy.Destructor].
func (p pooledCopies) Destruct() error {
	p.uncount()
	return nil
}

// copies takes the copies of a zone.
func (h *holds) copies(zone string, memory int64) (pooledCopies, error) {
	v, err := h.take(copiesKey{zone}, func() (caddy.Destructor, error) {
		shelf, flights := copies.NewShelf(memory), copies.NewFlights(mostWaiting)
		uncount := observe.CountCopies(zone, func() int { return int(shelf.Held()) }, flights.Waiting)
		return pooledCopies{shelf, flights, uncount}, nil
	})
	if err != nil {
		return pooledCopies{}, err
	}
	p := v.(pooledCopies)
	p.shelf.SetMost(memory)
	return p, nil
}

// copyKey is the key of the copies that answer a request.
func copyKey(r *http.Request) (key string, ok bool) { return copies.Key(r, originalURL(r)) }

// checkMemory checks how many bytes copies may take. 0 stands for the default.
func checkMemory(r report, n int64) {
	if n != 0 && (n < leastCopyMemory || n > mostCopyMemory) {
		r.problemf("must be between %d and %d bytes, got %d", leastCopyMemory, mostCopyMemory, n)
	}
}

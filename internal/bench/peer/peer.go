// Package peer holds the limiters that are measured side by side, each behind one function: may
// this key do this now?
package peer

import (
	"context"
	"time"
)

// A Setup is what all peers of a scene are given alike: one limit for each key.
type Setup struct {
	// Events may come in each Window. Where a peer knows a burst, it is Events too.
	Events int64
	Window time.Duration
	// Redis is the host:port of the server that keeps counts, for peers that use one.
	Redis string
}

// A Limiter is a peer that is set up. It is safe for concurrent use.
type Limiter struct {
	// Allow decides about one request of a key, and charges it.
	Allow func(ctx context.Context, key string) (bool, error)
	// Close frees what the limiter holds; nil if that is nothing but memory.
	Close func() error
}

// Open sets a peer up.
type Open func(Setup) (Limiter, error)

// A Peer is a limiter, or what a limiter is compared with.
type Peer struct {
	// Name stands in tables and in the names of scenes.
	Name string
	// Module is the path of the Go module, whose version is told; empty if it is ours.
	Module string
	Open   Open
}

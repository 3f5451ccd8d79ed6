// Package week plays a week of a blog and of all who read its feed, twice: once with the feed
// served as it is, and once behind a zone for feeds. Both times a real Caddy serves it, by its
// real file server, in this process and by a clock that runs as fast as it can.
//
// Who reads, how often, what with, and what it makes of an answer stands in one table,
// [Kinds]. The same seed makes the same week.
package week

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"
)

// Options of a week.
type Options struct {
	// Subscribers of the feed, some 100 or more. Of every 10,000 as many read with each kind
	// of reader as [Kinds] says, but at least one.
	Subscribers int
	// Span is how long it lasts; 7 days for a week.
	Span time.Duration
	// Seed of all that happens by chance.
	Seed uint64
	// Precompressed is set if the feed lies there by gzip as well, in a file of its own. Otherwise
	// Caddy compresses it for each answer, which takes most of the time that a week needs.
	Precompressed bool
	// Dir is a folder for the blogs' files.
	Dir string
	// Progress hears of each hour that begins in a world; may be nil.
	Progress func(w World, hour int)
}

// A World is one of the two that are compared.
type World int

// The worlds.
const (
	Without World = iota
	With
	worlds = 2
)

// String returns the world's word.
func (w World) String() string { return [worlds]string{"without", "with"}[w] }

// lines are what stands before the file server in the Caddyfile of a world.
var lines = [worlds]string{With: `rate_limit {
		# The default is a tenth at random, which would make each week another one.
		jitter 0.000001
		zone feeds {
			match path /feed.xml
			feed
		}
	}`}

// Begin is when a week begins: on a Monday.
var Begin = time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC)

// Run plays a week in both worlds.
func Run(ctx context.Context, o Options) (*Result, error) {
	r := newResult(o)
	for w := Without; w < worlds; w++ {
		if err := r.play(ctx, o, w); err != nil {
			return nil, fmt.Errorf("%s: %w", w, err)
		}
	}
	return r, nil
}

// play plays the week in one world.
func (r *Result) play(ctx context.Context, o Options, w World) (err error) {
	b := &blog{dir: filepath.Join(o.Dir, w.String()), packs: o.Precompressed}
	setClock(Begin)
	defer resetClock()
	if err := b.open(); err != nil {
		return err
	}
	s, err := serve(w, b.dir, lines[w], o.Precompressed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	known, err := s.validators()
	if err != nil {
		return err
	}
	readers := make([]*reader, len(r.crowd))
	for i := range readers {
		readers[i] = newReader(r.crowd[i], o, known)
	}
	due := queue(slices.Clone(readers))
	heap.Init(&due)
	hour := -1
	for end := Begin.Add(o.Span); len(due) > 0 && due[0].next.Before(end); {
		reader := due[0]
		now := reader.next
		if err := b.publish(now); err != nil {
			return err
		}
		if h := int(now.Sub(Begin) / time.Hour); h != hour {
			if err := ctx.Err(); err != nil {
				return err
			}
			if hour = h; o.Progress != nil {
				o.Progress(w, h)
			}
		}
		setClock(now)
		reader.turn(s, b, &r.Outcomes[reader.kind].Worlds[w], r)
		if reader.gone {
			heap.Pop(&due)
		} else {
			heap.Fix(&due, 0)
		}
	}
	for _, reader := range readers {
		r.Outcomes[reader.kind].Worlds[w].Missed += reader.misses(b, Begin.Add(o.Span))
	}
	return nil
}

// A queue has the reader first that asks next.
type queue []*reader

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	if q[i].next.Equal(q[j].next) {
		return q[i].index < q[j].index
	}
	return q[i].next.Before(q[j].next)
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(*reader)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	r := (*q)[last]
	*q = (*q)[:last]
	return r
}

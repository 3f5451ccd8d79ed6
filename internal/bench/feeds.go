package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/weirhq/caddy-weir/internal/bench/page"
	"github.com/weirhq/caddy-weir/internal/bench/week"
)

func feedsNames() []string { return []string{"feeds/week"} }

// feedsRate is about how many requests of a week are played in a second.
const feedsRate = 12_000

// feedsCost estimates how long a week takes: a subscriber is good for some ten requests a day in
// each world.
func feedsCost(b *bench, e effort, _ map[string]bool) time.Duration {
	requests := float64(b.subscribers()) * 10 * 2 * e.length.Hours() / 24 * float64(e.rounds)
	return time.Duration(requests / feedsRate * float64(time.Second))
}

// subscribers is how many the feed of a week has.
func (b *bench) subscribers() int {
	if b.quick {
		return feedsQuickSubscribers
	}
	return feedsSubscribers
}

// runFeeds plays as many weeks as there are rounds, each by another seed, and tells of all of them
// together.
func runFeeds(ctx context.Context, b *bench, e effort, _ map[string]bool) (*page.Section, error) {
	hours := int((e.length + time.Hour - 1) / time.Hour)
	b.progress.of(2 * hours * e.rounds)
	var all *week.Result
	for round := range e.rounds {
		r, err := week.Run(ctx, week.Options{
			Subscribers: b.subscribers(), Span: e.length, Seed: uint64(round + 1),
			Dir: filepath.Join(b.dir, fmt.Sprintf("week-%d", round+1)),
			Progress: func(w week.World, hour int) {
				b.progress.step(fmt.Sprintf("feeds/week, %s the zone, day %d, %02d:00", w, hour/24+1, hour%24))
			},
		})
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = r
		} else {
			all.Add(r)
		}
	}
	return feedsSection(all), nil
}

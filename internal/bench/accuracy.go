package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirhq/caddy-weir/internal/bench/page"
	"github.com/weirhq/caddy-weir/internal/bench/peer"
	"github.com/weirhq/caddy-weir/internal/redistest"
)

// A shape is a kind of traffic: when requests come, counted in windows from the first one.
type shape struct {
	name, says string
	times      func(events int) []float64
}

func (s shape) scene() string { return "accuracy/" + word(s.name) }

func shapeNames() []string {
	var all []string
	for _, s := range shapes {
		all = append(all, s.scene())
	}
	return all
}

func boundary(events int) []float64 {
	return slices.Concat([]float64{0}, slices.Repeat([]float64{0.8}, events), slices.Repeat([]float64{1.02}, 2*events))
}

func burstAndFlood(events int) []float64 {
	return slices.Concat([]float64{0}, slices.Repeat([]float64{0.8}, events), evenly(1.02, accuracyWindows, 5*events))
}

func onAndOff(events int) []float64 {
	var all []float64
	for w := range accuracyWindows {
		all = append(all, evenly(float64(w), float64(w)+0.5, 4*events)...)
	}
	return all
}

func poisson(events int) []float64 {
	chance := rand.New(rand.NewPCG(1, 2)) // the same for every peer
	var all []float64
	for at := 0.0; at < accuracyWindows; at += chance.ExpFloat64() / (1.5 * float64(events)) {
		all = append(all, at)
	}
	return all
}

// evenly returns moments that are even in time, so many in each window.
func evenly(from, to float64, each int) []float64 {
	var all []float64
	for at := from; at < to; at += 1 / float64(each) {
		all = append(all, at)
	}
	return all
}

// A passage is one request: when it was sent, when it was answered, and whether it passed.
type passage struct {
	sent, answered time.Duration
	passed         bool
}

// mostWithin returns how many requests passed that lie, sent and answered, within one window:
// that many have been let through in one, whenever between the two it was decided. The requests
// are in the order in which they were sent.
func mostWithin(all []passage, window time.Duration) int {
	most := 0
	for i := range all {
		n, _ := firstWithin(all[i:], window)
		most = max(most, n)
	}
	return most
}

// firstWithin returns how many requests passed within the window that begins with the first one,
// and when the last of them was answered.
func firstWithin(all []passage, window time.Duration) (n int, last time.Duration) {
	for _, p := range all {
		if p.sent-all[0].sent >= window {
			break
		}
		if p.passed && p.answered-all[0].sent < window {
			n++
			last = max(last, p.answered)
		}
	}
	return n, last
}

// exactly returns how many of the requests a log of all passages would have let through, had it
// seen them when they were sent.
func exactly(all []passage, events int, window time.Duration) int {
	var log []time.Duration
	for _, p := range all {
		if n := len(log); n < events || p.sent-log[n-events] >= window {
			log = append(log, p.sent)
		}
	}
	return len(log)
}

// A try is what a peer made of a shape.
type try struct {
	most, kept float64 // as multiples of the limit, and of what an exact log admits
}

// runAccuracy sends each shape to each peer, alone and as two nodes.
func runAccuracy(ctx context.Context, b *bench, e effort, chosen map[string]bool) (*page.Section, error) {
	var used []shape
	for _, s := range shapes {
		if chosen[s.scene()] {
			used = append(used, s)
		}
	}
	b.progress.of(4)
	table := page.Table{
		Said: fmt.Sprintf("The most that passed in any window, as a multiple of the limit of %d in %s; 1 is exact. Only what certainly lies within one window "+
			"is counted: the worst may be worse. \"Two nodes\" is the worst of all shapes if requests go to two of them in turn. \"Kept\" is the least share of what "+
			"an exact log of the same requests admits, on one node.", accuracyEvents, e.length),
		Head: []string{""},
	}
	for _, s := range used {
		table.Head = append(table.Head, s.name)
	}
	table.Head = append(table.Head, "two nodes", "kept")
	err := hosting(func(h *host) error {
		for _, list := range [][]peer.Peer{memoryPeers, redisPeers} {
			setup := peer.Setup{Events: accuracyEvents, Window: e.length}
			if &list[0] == &redisPeers[0] {
				setup.Redis = redistest.Start(h, redistest.Options{}).Addr()
			}
			var tries [2]map[string][]try
			for n := range tries {
				b.progress.step(fmt.Sprintf("accuracy, %s, %s", list[0].Name+" and its peers", count(n+1, "node")))
				var err error
				if tries[n], err = tryAll(ctx, list, used, setup, n+1); err != nil {
					return err
				}
			}
			table.Rows = append(table.Rows, accuracyRows(list, tries[0], tries[1])...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	says := page.Table{Said: "What the shapes are; each lasts " + count(accuracyWindows, "window") + " at most.", Head: []string{"", ""}}
	for _, s := range used {
		says.Rows = append(says.Rows, []string{s.name, s.says})
	}
	return &page.Section{Tables: []page.Table{table, says}}, nil
}

func accuracyRows(list []peer.Peer, one, two map[string][]try) [][]string {
	var rows [][]string
	for _, p := range list {
		if len(one[p.Name]) == 0 {
			continue
		}
		row := []string{p.Name}
		kept, worst := one[p.Name][0].kept, 0.0
		for i, t := range one[p.Name] {
			row = append(row, fmt.Sprintf("%.2f", t.most))
			kept = min(kept, t.kept)
			worst = max(worst, two[p.Name][i].most)
		}
		rows = append(rows, append(row, fmt.Sprintf("%.2f", worst), fmt.Sprintf("%.3f", kept)))
	}
	return rows
}

// tryAll sends all shapes to all peers at the same time, each to limiters of its own, and not all
// bursts at once.
func tryAll(ctx context.Context, list []peer.Peer, used []shape, setup peer.Setup, nodes int) (map[string][]try, error) {
	all := make(map[string][]try)
	g, ctx := errgroup.WithContext(ctx)
	begin := time.Now().Add(setup.Window / 4)
	k := 0
	for _, p := range list {
		if p.Name == onlyPing || p.Name == "EVALSHA, pool of 64" {
			continue
		}
		tries := make([]try, len(used))
		all[p.Name] = tries
		for i, s := range used {
			at := begin.Add(setup.Window * time.Duration(k) / time.Duration(len(list)*len(used)))
			k++
			g.Go(func() error {
				passages, err := send(ctx, p, s, setup, nodes, at)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", p.Name, s.name, err)
				}
				tries[i] = judge(passages, setup)
				return nil
			})
		}
	}
	return all, g.Wait()
}

func judge(all []passage, setup peer.Setup) try {
	most := mostWithin(all, setup.Window)
	passed := 0
	for _, p := range all {
		if p.passed {
			passed++
		}
	}
	return try{
		most: float64(most) / float64(setup.Events),
		kept: float64(passed) / float64(exactly(all, int(setup.Events), setup.Window)),
	}
}

// send sends a shape to a peer, to so many nodes in turn.
func send(ctx context.Context, p peer.Peer, s shape, setup peer.Setup, nodes int, begin time.Time) ([]passage, error) {
	limiters := make([]peer.Limiter, nodes)
	for i := range limiters {
		l, err := p.Open(setup)
		if err != nil {
			return nil, err
		}
		if l.Close != nil {
			defer l.Close()
		}
		// Connections are opened and scripts loaded for another key.
		if _, err := l.Allow(ctx, "first"); err != nil {
			return nil, err
		}
		limiters[i] = l
	}
	key := fmt.Sprintf("%s on %d", s.name, nodes)
	times := s.times(int(setup.Events))
	all := make([]passage, len(times))
	for i, at := range times {
		due := begin.Add(time.Duration(at * float64(setup.Window)))
		if err := until(ctx, due); err != nil {
			return nil, err
		}
		all[i].sent = time.Since(begin)
		ok, err := limiters[i%nodes].Allow(ctx, key)
		if err != nil {
			return nil, err
		}
		all[i].answered, all[i].passed = time.Since(begin), ok
	}
	return all, nil
}

// until waits for a moment.
func until(ctx context.Context, due time.Time) error {
	wait := time.Until(due)
	if wait <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// accuracyCost estimates how long the shapes take: memory and Redis, one node and two.
func accuracyCost(_ *bench, e effort, _ map[string]bool) time.Duration {
	return 4 * (accuracyWindows + 2) * e.length
}

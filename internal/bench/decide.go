package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/caddy-weir/internal/bench/gauge"
	"github.com/weirhq/caddy-weir/internal/bench/page"
	"github.com/weirhq/caddy-weir/internal/bench/peer"
	"github.com/weirhq/caddy-weir/internal/redistest"
)

// warming is how long a peer runs before it is measured in a contest: connections are opened,
// and scripts loaded.
const warming = 50 * time.Millisecond

// A result is what the peers did in a contest, peer by peer and round by round.
type result struct {
	contest contest
	peers   []peer.Peer
	rounds  [][]outcome
}

func contestNames(contests func() []contest) func() []string {
	return func() []string {
		var all []string
		for _, c := range contests() {
			all = append(all, c.name)
		}
		return all
	}
}

// contestCost estimates how long contests take: the turns, starting the peers, and measuring what
// a key takes.
func contestCost(peers []peer.Peer) func(b *bench, e effort, chosen map[string]bool) time.Duration {
	return func(_ *bench, e effort, chosen map[string]bool) time.Duration {
		turns := time.Duration(len(chosen)*len(peers)) * (time.Duration(e.rounds)*(e.length+5*time.Millisecond) + warming)
		return turns + time.Duration(len(peers))*time.Second
	}
}

// runMemory measures decisions in memory.
func runMemory(ctx context.Context, b *bench, e effort, chosen map[string]bool) (*page.Section, error) {
	contests := b.choose(memoryContests(), chosen)
	b.progress.of(len(contests) * e.rounds * len(memoryPeers))
	sizes, err := memorySizes(ctx, b.fewer(100_000))
	if err != nil {
		return nil, err
	}
	var all []result
	for _, group := range together(contests) {
		results, err := b.compete(ctx, e, group, memoryPeers, "", 0)
		if err != nil {
			return nil, err
		}
		all = append(all, results...)
	}
	tell := telling{
		where: "in memory", picture: "bench-memory.svg",
		detail: "Medians of the rounds. The loop that asks is part of each decision, alike for all.",
		size:   "By how much the heap grows for a key that was seen once.",
	}
	return tell.section(all, sizes), nil
}

// runRedis measures decisions on Redis.
func runRedis(ctx context.Context, b *bench, e effort, chosen map[string]bool) (*page.Section, error) {
	contests := b.choose(redisContests(), chosen)
	b.progress.of(len(contests) * e.rounds * len(redisPeers))
	var all []result
	var sizes map[string]float64
	err := hosting(func(h *host) error {
		for _, group := range together(contests) {
			server := redistest.Start(h, redistest.Options{})
			results, err := b.competeOn(ctx, e, group, server)
			server.Stop()
			if err != nil {
				return err
			}
			all = append(all, results...)
		}
		server := redistest.Start(h, redistest.Options{})
		var err error
		sizes, err = redisSizes(ctx, server, b.fewer(5_000))
		return err
	})
	if err != nil {
		return nil, err
	}
	tell := telling{
		where: "on Redis", picture: "bench-redis.svg", server: true,
		detail: "Medians of the rounds. CPU a decision: of the process that asks, and of the redis-server. Failed are calls that decided nothing.",
		size:   "By how much the server's data grows for a key that was seen once.",
	}
	return tell.section(all, sizes), nil
}

// competeOn runs contests with one server, which is as far away as they want.
func (b *bench) competeOn(ctx context.Context, e effort, group []contest, server *redistest.Server) ([]result, error) {
	pid, err := pidOf(server)
	if err != nil {
		return nil, err
	}
	addr := server.Addr()
	if by := group[0].distance; by > 0 {
		d, err := startDistance(ctx, addr, by)
		if err != nil {
			return nil, err
		}
		defer d.stop()
		addr = d.addr
	}
	return b.compete(ctx, e, group, redisPeers, addr, pid)
}

// choose returns the contests that are chosen. Those of a quick run have fewer keys.
func (b *bench) choose(all []contest, chosen map[string]bool) []contest {
	for i := range all {
		all[i].keys = b.fewer(all[i].keys)
	}
	return slices.DeleteFunc(all, func(c contest) bool { return !chosen[c.name] })
}

// fewer returns how many keys there are, where there are many.
func (b *bench) fewer(keys int) int {
	if b.quick {
		return min(keys, fewKeys)
	}
	return keys
}

// fewKeys are enough for a quick run.
const fewKeys = 1_000

// together groups contests that need the same setup and the same way to the server.
func together(all []contest) [][]contest {
	var groups [][]contest
	for _, c := range all {
		i := slices.IndexFunc(groups, func(g []contest) bool { return g[0].setup == c.setup && g[0].distance == c.distance })
		if i < 0 {
			groups = append(groups, nil)
			i = len(groups) - 1
		}
		groups[i] = append(groups[i], c)
	}
	return groups
}

// compete has each peer, in a process of its own, take its turns in contests of one setup. pid
// is that of the server whose time counts, 0 if there is none.
func (b *bench) compete(ctx context.Context, e effort, contests []contest, peers []peer.Peer, redis string, pid int) ([]result, error) {
	setup := contests[0].setup
	setup.Redis = redis
	workers := make([]*worker, len(peers))
	for i, p := range peers {
		w, err := startWorker(ctx, p, setup)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		defer w.stop()
		workers[i] = w
	}
	var all []result
	for _, c := range contests {
		r := result{c, peers, make([][]outcome, len(peers))}
		for i, w := range workers {
			if err := w.meet(c); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", c.name, peers[i].Name, err)
			}
		}
		for n := range e.rounds {
			for k := range peers {
				// Who comes first changes, and who comes after whom stays.
				i := (n + k) % len(peers)
				b.progress.step(c.name + " " + peers[i].Name)
				o, err := workers[i].turn(ctx, c, e.length, pid)
				if err != nil {
					return nil, fmt.Errorf("%s: %s: %w", c.name, peers[i].Name, err)
				}
				r.rounds[i] = append(r.rounds[i], o)
			}
		}
		all = append(all, r)
	}
	return all, nil
}

// meet shows a peer the keys of a contest once and lets it run for a moment. On Redis that takes
// long, and is done only if the keys have to be at their limit. In memory a peer that keeps keys
// has to have met others than those it is asked about, as in a server: strings that lie in one
// place are found equal without a look.
func (w *worker) meet(c contest) error {
	if c.setup == tightSetup || c.inMemory() {
		if _, err := w.do(order{Fill: c.keys}); err != nil {
			return err
		}
	}
	_, err := w.do(order{Rush: c.rush(warming)})
	return err
}

func (c contest) rush(length time.Duration) *rush {
	r := &rush{Clients: c.clients, Keys: c.keys, InOrder: c.inOrder, Length: length, Timed: 1}
	if c.inMemory() {
		r.Timed = 64
	}
	return r
}

func (c contest) inMemory() bool { return strings.HasPrefix(c.name, "memory/") }

// turn has a peer run for a while.
func (w *worker) turn(ctx context.Context, c contest, length time.Duration, pid int) (outcome, error) {
	if err := ctx.Err(); err != nil {
		return outcome{}, err
	}
	var before, after time.Duration
	var err error
	if pid != 0 {
		if before, err = gauge.CPU(pid); err != nil {
			return outcome{}, err
		}
	}
	r, err := w.do(order{Rush: c.rush(length)})
	if err != nil {
		return outcome{}, err
	}
	o := r.Outcome
	if pid != 0 {
		if after, err = gauge.CPU(pid); err != nil {
			return o, err
		}
		o.ServerCPU = after - before
	}
	switch {
	case o.Decisions == 0 && o.Error != "":
		return o, errors.New(o.Error)
	case o.Decisions == 0:
		return o, errors.New("it decided nothing: try a longer -length")
	case c.setup != tightSetup && o.Refused > 0:
		return o, fmt.Errorf("it refused %d of %d under a limit that nobody reaches", o.Refused, o.Decisions)
	}
	return o, nil
}

// memorySizes returns by how many bytes the heap grows for a key, peer by peer.
func memorySizes(ctx context.Context, keys int) (map[string]float64, error) {
	sizes := make(map[string]float64)
	for _, p := range memoryPeers {
		w, err := startWorker(ctx, p, sizeSetup)
		if err != nil {
			return nil, err
		}
		r, err := w.do(order{Fill: keys})
		w.stop()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		sizes[p.Name] = float64(r.Heap) / float64(keys)
	}
	return sizes, nil
}

// redisSizes returns by how many bytes a server's data grows for a key, peer by peer.
func redisSizes(ctx context.Context, server *redistest.Server, keys int) (map[string]float64, error) {
	sizes := make(map[string]float64)
	setup := sizeSetup
	setup.Redis = server.Addr()
	for _, p := range redisPeers {
		if p.Name == onlyPing {
			continue
		}
		server.Do("FLUSHALL")
		w, err := startWorker(ctx, p, setup)
		if err != nil {
			return nil, err
		}
		before, err := usedMemory(server)
		if err == nil {
			_, err = w.do(order{Fill: keys})
		}
		w.stop()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		after, err := usedMemory(server)
		if err != nil {
			return nil, err
		}
		sizes[p.Name] = (after - before) / float64(keys)
	}
	return sizes, nil
}

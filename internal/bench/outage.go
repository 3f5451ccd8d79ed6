package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/caddy-weir/internal/bench/page"
)

func outageNames() []string {
	var all []string
	for _, o := range outages {
		all = append(all, "outage/"+o.name)
	}
	return all
}

// A story is what happened in an outage, in times from the begin of the load.
type story struct {
	outage  *outage
	events  []event
	wakeups []wakeup
	from    time.Duration // when what is told begins
	broke   time.Duration
	mended  time.Duration // when somebody served again
	exact   time.Duration // from when on no key passed more than its limit
	onRedis time.Duration // from when on both nodes counted on Redis; below 0 if that is not known
	over    time.Duration
}

// runOutage loses Redis in all chosen ways, one after the other.
func runOutage(ctx context.Context, b *bench, e effort, chosen map[string]bool) (*page.Section, error) {
	var stories []story
	b.progress.of(len(chosen))
	for i := range outages {
		o := &outages[i]
		if !chosen["outage/"+o.name] {
			continue
		}
		b.progress.step("outage/" + o.name)
		err := hosting(func(h *host) error {
			s, err := b.tell(ctx, h, o, e)
			stories = append(stories, s)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.name, err)
		}
	}
	return outageSection(stories, e), nil
}

// outageTimes returns how long the load runs before what is told, before the outage, and after it.
func outageTimes(e effort) (settle, before, after time.Duration) {
	return e.length / 4, e.length / 2, max(e.length, 2*outageWindow)
}

// tell runs one outage under load.
func (b *bench) tell(ctx context.Context, h *host, o *outage, e effort) (story, error) {
	g, err := o.start(h)
	if err != nil {
		return story{}, err
	}
	nodes := make([]*server, 2)
	c := &crowd{rate: outageRate}
	for i := range nodes {
		if nodes[i], err = startServer(ctx, b, fmt.Sprintf("outage-%s-%d", o.name, i), outageConfig(g.redis), ""); err != nil {
			return story{}, err
		}
		defer nodes[i].stop()
		c.addrs = append(c.addrs, hostOf(nodes[i].url))
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	c.begin = time.Now()
	told := make(chan []event, 1)
	go func() { told <- c.run(running) }()
	slept := make(chan []wakeup, 1)
	go func() { slept <- oversleep(running, c.begin) }()
	s, err := b.lose(ctx, c, o.plot(g), nodes, e)
	stop()
	s.outage, s.events, s.wakeups = o, <-told, <-slept
	s.over = time.Since(c.begin)
	s.exact = exactFrom(s.events)
	return s, err
}

// lose lets an outage happen while the load runs.
func (b *bench) lose(ctx context.Context, c *crowd, p plot, nodes []*server, e effort) (story, error) {
	settle, before, after := outageTimes(e)
	s := story{from: settle, onRedis: -1}
	if err := until(ctx, c.begin.Add(settle+before)); err != nil {
		return s, err
	}
	s.broke = time.Since(c.begin)
	p.breaks()
	if p.mends != nil {
		if err := until(ctx, c.begin.Add(s.broke+e.length)); err != nil {
			return s, err
		}
		p.mends()
	}
	if p.back != nil {
		p.back()
	}
	s.mended = time.Since(c.begin)
	end := c.begin.Add(s.mended + after)
	if !p.apart {
		if at, ok := waitOnRedis(nodes, end); ok {
			s.onRedis = at.Sub(c.begin)
		}
	}
	return s, until(ctx, end)
}

// waitOnRedis waits until all nodes have had some decisions from Redis.
func waitOnRedis(nodes []*server, end time.Time) (time.Time, bool) {
	const some = 5
	first := make([]float64, len(nodes))
	for i, v := range nodes {
		first[i] = v.redisCalls()
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for now := range tick.C {
		on := 0
		for i, v := range nodes {
			if v.redisCalls() >= first[i]+some {
				on++
			}
		}
		if on == len(nodes) {
			return now, true
		}
		if now.After(end) {
			return now, false
		}
	}
	return end, false
}

// redisCalls returns how many calls of a Caddy to Redis went well, as its metrics say.
func (v *server) redisCalls() float64 {
	resp, err := http.Get("http://" + v.admin + "/metrics")
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), `caddy_weir_store_calls_total{result="ok",store="redis"} `); ok {
			n, _ := strconv.ParseFloat(rest, 64) // 0 if it is no number
			return n
		}
	}
	return 0
}

// outageConfig returns the Caddyfile of a node.
func outageConfig(redis string) string {
	return formatted(fmt.Sprintf(`{
	admin {$ADMIN}
	persist_config off
	auto_https off
	metrics
	weir {
		%s
	}
	servers {
		trusted_proxies static 127.0.0.0/8
		trusted_proxies_strict
	}
}
http://127.0.0.1:{$PORT} {
	rate_limit {
		zone all {
			key {client_ip}
			limit %d/%s
		}
	}
	respond "hello"
}
`, redis, outageLimit, outageWindow))
}

// byKey returns the passages of each key, in the order in which they were sent.
func byKey(events []event) map[int][]passage {
	all := make(map[int][]passage)
	for _, e := range events {
		all[e.key] = append(all[e.key], passage{e.sent, e.done, e.status == http.StatusOK})
	}
	return all
}

// exactFrom returns when for the last time more of a key passed in one window than its limit, 0
// if never.
func exactFrom(events []event) time.Duration {
	var last time.Duration
	for _, all := range byKey(events) {
		for i := range all {
			if n, end := firstWithin(all[i:], outageWindow); n > outageLimit {
				last = max(last, end)
			}
		}
	}
	return last
}

// outageCost estimates how long outages take.
func outageCost(_ *bench, e effort, chosen map[string]bool) time.Duration {
	settle, before, after := outageTimes(e)
	return time.Duration(len(chosen)) * (settle + before + e.length + after + 4*time.Second)
}

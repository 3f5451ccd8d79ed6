package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/caddy-weir/internal/bench/gauge"
	"github.com/weirhq/caddy-weir/internal/bench/page"
	"github.com/weirhq/caddy-weir/internal/redistest"
)

// A sample is one run of one side.
type sample struct {
	load
	cpu       float64 // of the Caddy, in microseconds a request
	serverCPU float64 // of the redis-server, likewise
	calls     float64 // of scripts on Redis, a request
}

// A trial is a scene with its samples, side by side and round by round.
type trial struct {
	scene   *httpScene
	samples [][]sample
}

// runHTTP measures Caddys under wrk.
func runHTTP(more bool) func(ctx context.Context, b *bench, e effort, chosen map[string]bool) (*page.Section, error) {
	return func(ctx context.Context, b *bench, e effort, chosen map[string]bool) (*page.Section, error) {
		var scenes []httpScene
		steps := 0
		for i, s := range httpScenes(many) {
			if chosen[s.name] {
				s = httpScenes(b.fewer(many))[i]
				scenes = append(scenes, s)
				steps += e.rounds * len(s.sides)
			}
		}
		b.progress.of(steps)
		var all []trial
		err := hosting(func(h *host) error {
			for i := range scenes {
				t, err := b.try(ctx, h, e, &scenes[i])
				if err != nil {
					return fmt.Errorf("%s: %w", scenes[i].name, err)
				}
				all = append(all, t)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		return httpSection(all, more), nil
	}
}

// try runs the rounds of a scene.
func (b *bench) try(ctx context.Context, h *host, e effort, s *httpScene) (trial, error) {
	t := trial{s, make([][]sample, len(s.sides))}
	var redis *redistest.Server
	sides := make([]*server, len(s.sides))
	for i := range sides {
		addr := ""
		if s.sides[i].redis {
			if redis == nil {
				redis = redistest.Start(h, redistest.Options{})
				defer redis.Stop()
			}
			addr = redis.Addr()
		}
		v, err := startServer(ctx, b, s.file(i), s.config(i), addr)
		if err != nil {
			return t, err
		}
		defer v.stop()
		sides[i] = v
	}
	for i, v := range sides {
		b.progress.tell(s.name + " " + s.sides[i].name + " warms up")
		if err := b.warm(ctx, v, s, i); err != nil {
			return t, err
		}
	}
	for n := range e.rounds {
		for k := range sides {
			i := (n + k) % len(sides)
			b.progress.step(s.name + " " + s.sides[i].name)
			profile := ""
			if b.profile != "" && n == e.rounds-1 {
				profile = filepath.Join(b.profile, s.file(i)+".pprof")
			}
			var server *redistest.Server
			if s.sides[i].redis {
				server = redis
			}
			one, err := b.sample(ctx, sides[i], s, e.length, server, profile)
			if err != nil {
				return t, fmt.Errorf("%s: %w", s.sides[i].name, err)
			}
			t.samples[i] = append(t.samples[i], one)
		}
	}
	return t, nil
}

// warm sends requests for a while, and where keys have to be at their limit two of each: one
// that passes, and one that is refused.
func (b *bench) warm(ctx context.Context, v *server, s *httpScene, side int) error {
	if side == 0 && b.quick {
		return nil
	}
	if _, err := b.load(ctx, v, s, time.Second); err != nil || side == 0 || s.keys == 1 || !s.refused {
		return err
	}
	return v.visit(ctx, s.keys, 2, b.connections)
}

// sample measures one run.
func (b *bench) sample(ctx context.Context, v *server, s *httpScene, length time.Duration, redis *redistest.Server, profile string) (sample, error) {
	var one sample
	if profile != "" {
		done := v.startProfile(profile, length)
		defer func() { <-done }()
	}
	count, err := meterOf(v, redis)
	if err != nil {
		return one, err
	}
	if one.load, err = b.load(ctx, v, s, length); err != nil {
		return one, err
	}
	if err := count(&one); err != nil {
		return one, err
	}
	if passed := one.requests - one.refused; s.refused && passed > 0 {
		return one, fmt.Errorf("%d of %d requests were not refused", passed, one.requests)
	}
	if !s.refused && one.refused > 0 {
		return one, fmt.Errorf("%d of %d requests were refused", one.refused, one.requests)
	}
	return one, nil
}

// meterOf notes what a Caddy and a redis-server have used; the function that it returns tells
// how much a run has added.
func meterOf(v *server, redis *redistest.Server) (func(one *sample) error, error) {
	read := func() (cpu, serverCPU time.Duration, calls float64, err error) {
		if redis != nil {
			pid, err := pidOf(redis)
			if err != nil {
				return 0, 0, 0, err
			}
			if serverCPU, err = gauge.CPU(pid); err != nil {
				return 0, 0, 0, err
			}
			calls = scriptCalls(redis)
		}
		cpu, err = v.cpu()
		return cpu, serverCPU, calls, err
	}
	cpu, serverCPU, calls, err := read()
	if err != nil {
		return nil, err
	}
	return func(one *sample) error {
		cpu2, serverCPU2, calls2, err := read()
		n := float64(one.requests)
		one.cpu = float64((cpu2 - cpu).Nanoseconds()) / 1e3 / n
		one.serverCPU = float64((serverCPU2 - serverCPU).Nanoseconds()) / 1e3 / n
		one.calls = (calls2 - calls) / n
		return err
	}, nil
}

// scriptCalls returns how often a server has run a script.
func scriptCalls(s *redistest.Server) float64 {
	total := 0.0
	for _, command := range []string{"cmdstat_evalsha", "cmdstat_eval"} {
		text, err := info(s, "commandstats", command)
		if err != nil {
			continue // none so far
		}
		text, _ = strings.CutPrefix(text, "calls=")
		text, _, _ = strings.Cut(text, ",")
		n, _ := strconv.ParseFloat(text, 64) // 0 if it is no number
		total += n
	}
	return total
}

// httpCost estimates how long scenes take: the runs, the starts, and showing all keys to all
// sides.
func httpCost(b *bench, e effort, chosen map[string]bool) time.Duration {
	var total time.Duration
	for _, s := range httpScenes(many) {
		if !chosen[s.name] {
			continue
		}
		run := time.Duration(max(1, int(e.length.Seconds())))*time.Second + 50*time.Millisecond
		warm := time.Second
		if s.keys > 1 && s.refused && !b.quick {
			warm = time.Duration(s.keys) * 3 / 2 * 70 * time.Microsecond
		}
		total += time.Duration(len(s.sides)) * (time.Duration(e.rounds)*run + warm + time.Second/2)
	}
	return total
}

package redisstore

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
)

// BenchmarkCrowd compares the store with what one writes first: an EVALSHA a request, by a client
// of go-redis with its defaults, of the very script that the store sends for one request. Both
// answer as many clients as the name says, each of which asks again as soon as it is answered,
// under one of 10,000 keys. The two take turns in many short rounds, each of them first in every
// other one, and the median of the rounds is reported: decisions a second, the 99th percentile of the
// delays, the processor time for a decision of the client and the server, and of the server alone, each of the
// store and as a multiple of the other's (x-direct, with its quartiles, x-p99, x-cpu, x-server); and of
// the store alone the time that the server's scripts take for a decision, as the server counts
// it, and the allocations.
//
// With a delay, a proxy keeps what goes to the server for a millisecond.
func BenchmarkCrowd(b *testing.B) {
	s := redistest.Start(b, redistest.Options{})
	for _, delay := range []time.Duration{0, time.Millisecond} {
		for _, clients := range []int{1, 8, 64, 512} {
			name := fmt.Sprintf("%dclients", clients)
			if delay > 0 {
				name += "/" + delay.String()
			}
			b.Run(name, func(b *testing.B) {
				addr := s.Addr()
				if delay > 0 {
					addr = slowly(b, addr, delay)
				}
				compareCrowds(b, s, addr, clients)
			})
		}
	}
}

const crowdKeys = 10_000

// A crowdRound is what a round came to.
type crowdRound struct{ rate, p99, cpu, server, script, allocs float64 }

func compareCrowds(b *testing.B, s *redistest.Server, addr string, clients int) {
	store := open(b, s, Options{Addresses: []string{addr}, Secret: []byte("s")})
	plain := redis.NewClient(&redis.Options{Addr: addr})
	defer plain.Close()

	l := &limiter.Limit{Zone: "crowd", Algorithm: limiter.SlidingWindow, Events: 1000, Window: time.Minute}
	names := make([]string, crowdKeys)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	c := callOf(b, store, []limiter.Ask{{Limit: l, Key: "k", Cost: 1}})
	script := takeScript(c.needed)
	if err := plain.ScriptLoad(background, script.text).Err(); err != nil {
		b.Fatal(err)
	}
	direct := func(key string) error {
		return plain.EvalSha(background, script.sha, []string{"direct:{" + key + "}"}, c.packed).Err()
	}
	batched := func(key string) error {
		var r [1]limiter.Result
		return store.Take(context.Background(), []limiter.Ask{{Limit: l, Key: key, Cost: 1}}, r[:])
	}
	const rounds = 31
	figures := map[string][]float64{}
	for b.Loop() {
		for i := range rounds {
			var d, o crowdRound
			if i%2 == 0 {
				d = crowd(b, s, clients, names, direct)
			}
			o = crowd(b, s, clients, names, batched)
			if i%2 == 1 {
				d = crowd(b, s, clients, names, direct)
			}
			for name, figure := range map[string]float64{
				"decisions/s": o.rate, "x-direct": o.rate / d.rate,
				"p99-µs": o.p99, "x-p99": o.p99 / d.p99,
				"cpu-µs": o.cpu, "x-cpu": o.cpu / d.cpu,
				"server-µs": o.server, "x-server": o.server / d.server,
				"script-µs": o.script, "allocs": o.allocs,
			} {
				figures[name] = append(figures[name], figure)
			}
		}
	}
	for name, all := range figures {
		b.ReportMetric(median(all), name)
	}
	ratios := figures["x-direct"] // sorted by now
	b.ReportMetric(ratios[len(ratios)/4], "x-direct-q1")
	b.ReportMetric(ratios[len(ratios)*3/4], "x-direct-q3")
	b.ReportMetric(0, "ns/op")
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// crowd lets clients ask for a while.
func crowd(b *testing.B, s *redistest.Server, clients int, keys []string, take func(key string) error) crowdRound {
	const length = 100 * time.Millisecond
	s.Do("CONFIG RESETSTAT")
	var heap, heapBefore runtime.MemStats
	runtime.ReadMemStats(&heapBefore)
	before, serverBefore := cpuTime(b, s), serverTime(b, s)
	var mu sync.Mutex
	var delays []time.Duration
	var wg sync.WaitGroup
	start := time.Now()
	for range clients {
		wg.Go(func() {
			var own []time.Duration
			for at := time.Now(); at.Sub(start) < length; {
				if err := take(keys[rand.IntN(len(keys))]); err != nil {
					b.Error(err)
					return
				}
				now := time.Now()
				own = append(own, now.Sub(at))
				at = now
			}
			mu.Lock()
			delays = append(delays, own...)
			mu.Unlock()
		})
	}
	wg.Wait()
	took := time.Since(start)
	runtime.ReadMemStats(&heap)
	slices.Sort(delays)
	n := len(delays)
	return crowdRound{
		rate:   float64(n) / took.Seconds(),
		p99:    float64(delays[n*99/100].Nanoseconds()) / 1000,
		cpu:    (cpuTime(b, s) - before) / float64(n),
		server: (serverTime(b, s) - serverBefore) / float64(n),
		script: scriptTime(b, s) / float64(n),
		allocs: float64(heap.Mallocs-heapBefore.Mallocs) / float64(n),
	}
}

// scriptTime returns how many microseconds scripts took by the server's count.
func scriptTime(b *testing.B, s *redistest.Server) float64 {
	b.Helper()
	_, rest, ok := strings.Cut(s.Do("INFO commandstats"), "cmdstat_evalsha:")
	_, rest, ok2 := strings.Cut(rest, "usec=")
	number, _, _ := strings.Cut(rest, ",")
	usec, err := strconv.ParseFloat(number, 64)
	if !ok || !ok2 || err != nil {
		b.Fatal("no figures of scripts")
	}
	return usec
}

// cpuTime returns how many microseconds of processor time this process and the server have had.
func cpuTime(b *testing.B, s *redistest.Server) float64 {
	b.Helper()
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		b.Fatal(err)
	}
	return float64(own.Utime.Nano()+own.Stime.Nano())/1000 + serverTime(b, s)
}

// serverTime is the server's part of it.
func serverTime(b *testing.B, s *redistest.Server) float64 {
	b.Helper()
	usec := 0.0
	for line := range strings.Lines(s.Do("INFO cpu")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			usec += seconds * 1e6
		}
	}
	return usec
}

// slowly starts a proxy that keeps all that it takes to a server for so long.
func slowly(b *testing.B, server string, delay time.Duration) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var conns sync.WaitGroup
	b.Cleanup(func() {
		l.Close()
		conns.Wait()
	})
	conns.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			conns.Go(func() {
				_, _ = io.Copy(client, up) // ends when the server hangs up
				client.Close()
			})
			conns.Go(func() {
				lag(up, client, delay)
				up.Close()
			})
		}
	})
	return l.Addr().String()
}

// lag copies, each piece so much later.
func lag(to io.Writer, from io.Reader, delay time.Duration) {
	type piece struct {
		bytes []byte
		due   time.Time
	}
	pieces := make(chan piece, 1024)
	go func() {
		defer close(pieces)
		for {
			room := make([]byte, 16<<10)
			n, err := from.Read(room)
			if err != nil {
				return
			}
			pieces <- piece{room[:n], time.Now().Add(delay)}
		}
	}()
	for p := range pieces {
		<-time.After(time.Until(p.due))
		if _, err := to.Write(p.bytes); err != nil {
			return
		}
	}
}

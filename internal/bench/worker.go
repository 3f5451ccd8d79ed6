package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/caddy-weir/internal/bench/delay"
	"github.com/weirhq/caddy-weir/internal/bench/gauge"
	"github.com/weirhq/caddy-weir/internal/bench/peer"
)

// A worker is a process with one peer in it, so that the processor time and the memory that are
// counted are that peer's alone. It is this program with [role] set, and does what it is told on
// its standard input, line by line.
type worker struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	to   *json.Encoder
	from *json.Decoder
}

// An order is what a worker is to do: set a peer up, run a rush, or see many keys once.
type order struct {
	Open  string `json:",omitempty"`
	Setup peer.Setup
	Rush  *rush `json:",omitempty"`
	Fill  int   `json:",omitempty"` // how many keys
}

// A report answers an order.
type report struct {
	Error   string
	Outcome outcome
	Heap    int64 // by how many bytes the keys have made the heap grow
}

// startWorker starts a process for a peer. It ends with stop, or when this program does.
func startWorker(ctx context.Context, p peer.Peer, s peer.Setup) (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &worker{cmd: exec.CommandContext(ctx, self)}
	w.cmd.Env = append(os.Environ(), role+"="+asWorker)
	w.cmd.Stderr = os.Stderr
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	w.to, w.from = json.NewEncoder(w.in), json.NewDecoder(bufio.NewReader(out))
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := w.do(order{Open: p.Name, Setup: s}); err != nil {
		w.stop()
		return nil, err
	}
	return w, nil
}

// stop ends the process.
func (w *worker) stop() {
	w.in.Close()
	_ = w.cmd.Wait() // how it ended is of no interest
}

// do has an order carried out.
func (w *worker) do(o order) (report, error) {
	var r report
	if err := w.to.Encode(o); err != nil {
		return r, err
	}
	if err := w.from.Decode(&r); err != nil {
		return r, fmt.Errorf("the process with the peer: %w", err)
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, nil
}

// work is what a worker's process does.
func work(in io.Reader, out io.Writer) error {
	var s seat
	defer s.close()
	orders, reports := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		r, err := s.carryOut(o)
		if err != nil {
			r.Error = err.Error()
		}
		if err := reports.Encode(r); err != nil {
			return err
		}
	}
}

// A seat is where the one peer of a worker's process sits.
type seat struct {
	limiter peer.Limiter
	keys    []string
	mixed   []string // some of keys in another order
}

func (s *seat) carryOut(o order) (report, error) {
	var r report
	switch {
	case o.Open != "":
		return r, s.open(o)
	case o.Rush != nil:
		s.have(o.Rush.Keys)
		keys := s.keys
		if !o.Rush.InOrder {
			keys = s.shuffle(o.Rush.Keys)
		}
		before, err := gauge.CPU(os.Getpid())
		if err != nil {
			return r, err
		}
		r.Outcome = drive(context.Background(), s.limiter, *o.Rush, keys)
		after, err := gauge.CPU(os.Getpid())
		r.Outcome.CPU = after - before
		return r, err
	}
	s.have(o.Fill)
	before := heap()
	// Clones, since what a peer keeps of a key is part of what it takes.
	for _, key := range s.keys[:o.Fill] {
		if _, err := s.limiter.Allow(context.Background(), strings.Clone(key)); err != nil {
			return r, err
		}
	}
	r.Heap = heap() - before
	runtime.KeepAlive(s.limiter)
	return r, nil
}

func (s *seat) open(o order) error {
	all := slices.Concat(memoryPeers, redisPeers)
	i := slices.IndexFunc(all, func(p peer.Peer) bool { return p.Name == o.Open })
	if i < 0 {
		return fmt.Errorf("no peer is called %q", o.Open)
	}
	var err error
	s.limiter, err = all[i].Open(o.Setup)
	return err
}

func (s *seat) close() {
	if s.limiter.Close != nil {
		_ = s.limiter.Close() // the process ends
	}
}

// have makes sure that there are so many keys: addresses, as clients have.
func (s *seat) have(n int) {
	for i := len(s.keys); i < n; i++ {
		s.keys = append(s.keys, "10."+strconv.Itoa(i>>16)+"."+strconv.Itoa(i>>8&255)+"."+strconv.Itoa(i&255))
	}
}

// shuffle returns the first keys in an order by chance, always the same. They are clones that lie in
// memory as they are asked about: the key of a request is fresh in the cache as well.
func (s *seat) shuffle(n int) []string {
	if len(s.mixed) != n {
		s.mixed = slices.Clone(s.keys[:n])
		rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) { s.mixed[i], s.mixed[j] = s.mixed[j], s.mixed[i] })
		for i, key := range s.mixed {
			s.mixed[i] = strings.Clone(key)
		}
	}
	return s.mixed
}

// heap returns how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A distance is a process with a delaying proxy in it: its processor time is nobody's.
type distance struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	addr string
}

// startDistance puts a delay before a server.
func startDistance(ctx context.Context, target string, by time.Duration) (*distance, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	d := &distance{cmd: exec.CommandContext(ctx, self, target, by.String())}
	d.cmd.Env = append(os.Environ(), role+"="+asDistance)
	d.cmd.Stderr = os.Stderr
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if d.in, err = d.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := fmt.Fscanln(out, &d.addr); err != nil {
		d.stop()
		return nil, fmt.Errorf("the delaying proxy did not start: %w", err)
	}
	return d, nil
}

func (d *distance) stop() {
	d.in.Close()
	_ = d.cmd.Wait() // how it ended is of no interest
}

// keepDistance is what such a process does, until its standard input ends.
func keepDistance(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 2 {
		return fmt.Errorf("want an address and a delay, got %q", args)
	}
	by, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	p, err := delay.Start(args[0], by)
	if err != nil {
		return err
	}
	defer p.Close()
	fmt.Fprintln(out, p.Addr())
	_, err = io.Copy(io.Discard, in)
	return err
}

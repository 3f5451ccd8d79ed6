package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxHops is how many nodes a command is sent to until one takes it.
	maxHops = 5
	// askedAtOnce is how many nodes are asked for the slots at once; one answer is enough.
	askedAtOnce = 5
	// staleAfter is the age at which the slots are looked up again even if no node has sent
	// a command elsewhere.
	staleAfter = 10 * time.Second
)

// cluster is the link to the nodes of a Redis Cluster. Which node serves a slot is known from
// what the nodes say; one that is asked wrongly says so and has not run the command.
type cluster struct {
	seeds   []string
	open    func(addr string) *node
	timeout time.Duration
	scout   scout

	owners [slots]atomic.Pointer[node]
	seen   atomic.Int64 // when the slots were last looked up, in nanoseconds since the epoch

	mu    sync.Mutex
	nodes map[string]*node // by address
	// numbers has those of all nodes there ever were: one that comes back keeps its own.
	numbers map[string]int
	closed  bool
}

func newCluster(seeds []string, open func(addr string) *node, timeout time.Duration) *cluster {
	l := &cluster{seeds: seeds, open: open, timeout: timeout, nodes: make(map[string]*node), numbers: make(map[string]int)}
	l.scout = scout{look: l.look, timeout: timeout}
	return l
}

func (l *cluster) do(ctx context.Context, key string, args ...any) *redis.Cmd {
	slot := slotOf(key)
	n, err := l.home(ctx, slot)
	if err != nil {
		return failed(ctx, err, args)
	}
	asking := false
	for hop := 1; ; hop++ {
		cmd := n.send(ctx, asking, args)
		err := cmd.Err()
		l.heed(slot, n, err)
		moved, isMoved := redis.IsMovedError(err)
		ask, isAsk := redis.IsAskError(err)
		if hop == maxHops || !isMoved && !isAsk {
			return cmd
		}
		// The answer says that the command was not run, so that it may be sent again.
		if n, err = l.node(beside(n.addr, moved+ask)); err != nil {
			return failed(ctx, err, args)
		}
		asking = isAsk
	}
}

// send sends a command, asking for a slot that is being moved to the node, if need be.
func (n *node) send(ctx context.Context, asking bool, args []any) *redis.Cmd {
	if !asking {
		return n.Do(ctx, args...)
	}
	pipe := n.Pipeline()
	pipe.Do(ctx, "asking")
	cmd := pipe.Do(ctx, args...)
	_, _ = pipe.Exec(ctx) // the command has its error
	return cmd
}

// heed goes by where a node says that a slot has moved, and looks the slots up again after an
// error that may come of a change among the nodes.
func (l *cluster) heed(slot int, from *node, err error) {
	if err == nil {
		return
	}
	if moved, ok := redis.IsMovedError(err); ok {
		if n, err := l.node(beside(from.addr, moved)); err == nil {
			l.owners[slot].Store(n)
			l.scout.nudge()
		}
		return
	}
	if !replied(err) || redis.IsClusterDownError(err) || readOnly(err) || redis.IsMasterDownError(err) {
		l.scout.nudge()
	}
}

// home returns the node that serves a slot, as far as is known.
func (l *cluster) home(ctx context.Context, slot int) (*node, error) {
	n := l.owners[slot].Load()
	if n == nil {
		if err := l.scout.wait(ctx); err != nil {
			return nil, err
		}
		if n = l.owners[slot].Load(); n == nil {
			return nil, fmt.Errorf("no node of the cluster serves slot %d", slot)
		}
	}
	if time.Since(time.Unix(0, l.seen.Load())) > staleAfter {
		l.scout.nudge()
	}
	return n, nil
}

// node returns the node at an address, known or new.
func (l *cluster) node(addr string) (*node, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed
	}
	n := l.nodes[addr]
	if n == nil {
		n = l.open(addr)
		number, known := l.numbers[addr]
		if !known {
			number = len(l.numbers)
			l.numbers[addr] = number
		}
		n.number = number
		l.nodes[addr] = n
	}
	return n, nil
}

func (*cluster) slot(key string) int { return slotOf(key) }

// masters returns the nodes that serve slots.
func (l *cluster) masters(ctx context.Context) ([]master, error) {
	if err := l.scout.wait(ctx); err != nil {
		return nil, err
	}
	var all []master
	tagged := make(map[*node]bool)
	for slot := range l.owners {
		n := l.owners[slot].Load()
		if n == nil || tagged[n] {
			continue
		}
		tagged[n] = true
		all = append(all, master{n, tagOn(func(slot int) bool { return l.owners[slot].Load() == n })})
	}
	return all, nil
}

// tagOn returns a hash tag in one of the slots that are good.
func tagOn(good func(slot int) bool) string {
	for i := 0; ; i++ {
		// In so many tags there is one for every slot.
		if tag := strconv.Itoa(i); i > 20*slots || good(slotOf(tag)) {
			return tag
		}
	}
}

// look asks some of the nodes which of them serves which slots, and goes by the first answer:
// where it is behind, the nodes themselves will say so.
func (l *cluster) look(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type word struct {
		from  *node
		slots []redis.ClusterSlot
		err   error
	}
	asked := l.some()
	words := make(chan word, len(asked))
	for _, addr := range asked {
		go func() {
			n, err := l.node(addr)
			if err != nil {
				words <- word{err: err}
				return
			}
			//lint:ignore SA1019 CLUSTER SHARDS is known to Redis 7 and later only.
			found, err := n.ClusterSlots(ctx).Result()
			if err == nil && len(found) == 0 {
				err = errors.New("it serves no slots")
			}
			words <- word{n, found, err}
		}()
	}
	var errs []error
	for range asked {
		w := <-words
		if w.err == nil {
			return l.adopt(w.from.addr, w.slots)
		}
		errs = append(errs, w.err)
	}
	return fmt.Errorf("no node tells of the cluster: %w", errors.Join(errs...))
}

// some returns the addresses of a few nodes, known ones and seeds, in no order.
func (l *cluster) some() []string {
	all := make(map[string]bool, len(l.seeds))
	for _, addr := range l.seeds {
		all[addr] = true
	}
	l.mu.Lock()
	for addr := range l.nodes {
		all[addr] = true
	}
	l.mu.Unlock()
	addrs := make([]string, 0, len(all))
	for addr := range all {
		addrs = append(addrs, addr)
	}
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	return addrs[:min(len(addrs), askedAtOnce)]
}

// adopt goes by the slots as the node at that address tells them, and closes nodes that are
// no longer part of the cluster.
func (l *cluster) adopt(from string, found []redis.ClusterSlot) error {
	var owners [slots]*node
	used := make(map[*node]bool)
	for _, r := range found {
		if len(r.Nodes) == 0 || r.Start < 0 || r.End >= slots {
			continue
		}
		n, err := l.node(beside(from, r.Nodes[0].Addr))
		if err != nil {
			return err
		}
		used[n] = true
		for _, replica := range r.Nodes[1:] {
			// One that becomes the master is then known at once, and can be asked.
			if n, err := l.node(beside(from, replica.Addr)); err == nil {
				used[n] = true
			}
		}
		for slot := r.Start; slot <= r.End; slot++ {
			owners[slot] = n
		}
	}
	for slot, n := range owners {
		l.owners[slot].Store(n)
	}
	l.seen.Store(time.Now().UnixNano())
	l.mu.Lock()
	defer l.mu.Unlock()
	for addr, n := range l.nodes {
		if !used[n] && addr != from {
			delete(l.nodes, addr)
			retire(n, l.timeout)
		}
	}
	return nil
}

// beside completes an address that a node gave: one without a host means that node's own.
func beside(from, addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host != "" && host != "?" {
		return addr
	}
	own, _, _ := net.SplitHostPort(from)
	return net.JoinHostPort(strings.Trim(own, "[]"), port)
}

func (l *cluster) close() error {
	l.scout.close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	var errs []error
	for _, n := range l.nodes {
		errs = append(errs, n.Close())
	}
	return errors.Join(errs...)
}

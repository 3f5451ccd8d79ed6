package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// errClosed is what is wrong with a link after close.
var errClosed = redis.ErrClosed

// recheck is after how long the sentinels are asked again which server is the master. A
// demoted one may come back and take writes until the sentinels have told it.
const recheck = time.Second

// sentinel is the link to the master of several servers, of which sentinels say which it is
// at the moment.
type sentinel struct {
	name      string // of the set of servers
	sentinels []*redis.Client
	open      func(addr string) *node
	timeout   time.Duration
	scout     scout

	current atomic.Pointer[node]
	seen    atomic.Int64 // when it was last confirmed, in nanoseconds since the epoch
	epoch   int64        // of the configuration that named it; only a look uses it
}

func newSentinel(name string, sentinels []*redis.Client, open func(addr string) *node, timeout time.Duration) *sentinel {
	l := &sentinel{name: name, sentinels: sentinels, open: open, timeout: timeout}
	l.scout = scout{look: l.look, timeout: timeout}
	return l
}

func (l *sentinel) do(ctx context.Context, _ string, args ...any) *redis.Cmd {
	n, err := l.master(ctx)
	if err != nil {
		return failed(ctx, err, args)
	}
	cmd := n.Do(ctx, args...)
	if readOnly(cmd.Err()) && l.scout.wait(ctx) == nil {
		// It was demoted and refused to write (L95): nothing has been counted.
		if now := l.current.Load(); now != nil && now != n {
			return now.Do(ctx, args...)
		}
	}
	l.heed(0, n, cmd.Err())
	return cmd
}

// master returns the master of the moment.
func (l *sentinel) master(ctx context.Context) (*node, error) {
	n := l.current.Load()
	if n == nil {
		if err := l.scout.wait(ctx); err != nil {
			return nil, err
		}
		if n = l.current.Load(); n == nil {
			return nil, errClosed
		}
		return n, nil
	}
	if time.Since(time.Unix(0, l.seen.Load())) > recheck {
		l.scout.nudge()
	}
	return n, nil
}

func (l *sentinel) home(ctx context.Context, _ int) (*node, error) { return l.master(ctx) }

func (l *sentinel) heed(_ int, _ *node, err error) {
	if err != nil && !errors.Is(err, redis.Nil) {
		l.scout.nudge()
	}
}

func (*sentinel) slot(string) int { return 0 }

func (l *sentinel) masters(ctx context.Context) ([]master, error) {
	n, err := l.master(ctx)
	return []master{{n, "any"}}, err
}

// A word is what one sentinel says.
type word struct {
	addr  string
	epoch int64 // of the configuration; it grows with each failover
	err   error
}

// look asks all sentinels at once, and goes by the latest configuration that most of them
// have, or all that answer in time: one that was cut off may still name an old master. Nor
// do fewer than most of them bring back a configuration that is older than the one in use.
func (l *sentinel) look(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	words := make(chan word, len(l.sentinels))
	for _, s := range l.sentinels {
		go func() { words <- l.ask(ctx, s) }()
	}
	best, heard := word{epoch: -1}, 0
	var errs []error
	for range l.sentinels {
		w := <-words
		if w.err != nil {
			errs = append(errs, w.err)
			continue
		}
		if w.epoch > best.epoch {
			best = w
		}
		if heard++; heard > len(l.sentinels)/2 {
			break
		}
	}
	if heard == 0 {
		return fmt.Errorf("no sentinel names the master: %w", errors.Join(errs...))
	}
	return l.goBy(best, heard, errs)
}

// goBy goes by the latest of what so many sentinels say, the others having failed.
func (l *sentinel) goBy(best word, heard int, errs []error) error {
	if heard <= len(l.sentinels)/2 && best.epoch < l.epoch && l.current.Load() != nil {
		return errors.Join(append(errs, fmt.Errorf("the sentinels that answer know an older master, %s", best.addr))...)
	}
	l.epoch = best.epoch
	l.seen.Store(time.Now().UnixNano())
	old := l.current.Load()
	if old != nil && old.addr == best.addr {
		return nil
	}
	l.current.Store(l.open(best.addr))
	if old != nil {
		retire(old, l.timeout)
	}
	if l.scout.isClosed() {
		// The link was closed meanwhile, perhaps before it had this node.
		return l.leave()
	}
	return nil
}

// leave closes the node that is in use.
func (l *sentinel) leave() error {
	if n := l.current.Swap(nil); n != nil {
		return n.Close()
	}
	return nil
}

func (l *sentinel) ask(ctx context.Context, s *redis.Client) word {
	pipe := s.Pipeline()
	addr := pipe.Do(ctx, "sentinel", "get-master-addr-by-name", l.name)
	state := redis.NewMapStringStringCmd(ctx, "sentinel", "master", l.name)
	_ = pipe.Process(ctx, state)
	if _, err := pipe.Exec(ctx); err != nil {
		if errors.Is(err, redis.Nil) {
			err = fmt.Errorf("it knows no master %q", l.name)
		}
		return word{err: fmt.Errorf("sentinel %s: %w", s.Options().Addr, err)}
	}
	host, err := addr.StringSlice()
	if err == nil && len(host) != 2 {
		err = fmt.Errorf("an address of %d parts", len(host))
	}
	if err != nil {
		return word{err: fmt.Errorf("sentinel %s: %w", s.Options().Addr, err)}
	}
	// One that does not tell its epoch is as good as one that has the oldest.
	epoch, _ := strconv.ParseInt(state.Val()["config-epoch"], 10, 64)
	return word{addr: net.JoinHostPort(host[0], host[1]), epoch: epoch}
}

// retire closes a node once the calls that still use it are over.
func retire(n *node, timeout time.Duration) {
	time.AfterFunc(timeout, func() { n.Close() })
}

func (l *sentinel) close() error {
	l.scout.close()
	var errs []error
	for _, s := range l.sentinels {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, l.leave())...)
}

package config

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/blocklist/filelist"
	"github.com/weirhq/caddy-weir/blocklist/redislist"
	"github.com/weirhq/caddy-weir/internal/observe"
)

// A core is a shared list as one process has it: it outlives configurations, so that a reload,
// with Redis away, keeps what was known.
type core struct {
	keeper blocklist.Keeper
	close  func() error
	where  string // for people: redis, or a file
	copy   string // the path of the disk copy; empty for none

	answered chan struct{} // closed once the keeper has said anything
	answer   func()        // closes it
	watching chan struct{} // holds a token while nobody watches
	wake     chan struct{} // the compiler has work
	pending  atomic.Pointer[blocklist.Content]

	mu      sync.Mutex
	content blocklist.Content
	part    *blocklist.Part
	bad     error     // why part is not what content says
	known   time.Time // when content was last known to be up to date
	since   time.Time // since when the keeper is in trouble; zero if it is not
	trouble error
	told    string // the trouble that was logged last; empty if it is over
	// copyTrouble is what is wrong with the disk copy, and copyTold that it was logged.
	copyTrouble error
	copyTold    bool
	lists       map[*List]struct{}
	next        chan struct{}     // closed at the next content
	copied      blocklist.Content // what the copy says; belongs to keepCopy, as does the next
	unreadable  bool              // whether there is a copy that nobody here can read

	forget []func()
}

// lastCopy is how long the end of a process waits for the last copy on disk.
const lastCopy = 10 * time.Second

// Destruct implements [caddy.Destructor]. Nothing runs any more that would go on with it; what still ends writes the
// last copy, and the process must not end before.
func (c *core) Destruct() error {
	ended := time.NewTimer(lastCopy)
	defer ended.Stop()
	select {
	case <-c.watching:
	case <-ended.C:
	}
	for _, forget := range c.forget {
		forget()
	}
	return c.close()
}

// A listKey names a core in the pool: by its Redis, or by the path of its file.
type listKey struct {
	redis redisKey
	path  string
}

// list takes the core of a configuration, and has it read what is on disk.
func (h *holds) list(a *App) (*core, error) {
	key := listKey{path: ListPath()}
	if a.Redis != nil {
		key = listKey{redis: a.redisKey()}
	}
	v, err := h.take(key, func() (caddy.Destructor, error) {
		if a.Redis == nil {
			return openFile(key.path), nil
		}
		return openRedis(key.redis, a.Redis)
	})
	if err != nil {
		return nil, err
	}
	return v.(*core), nil
}

func newCore(keeper blocklist.Keeper, where string) *core {
	c := &core{
		keeper: keeper, where: where,
		answered: make(chan struct{}),
		watching: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		lists: make(map[*List]struct{}), next: make(chan struct{}),
	}
	c.answer = sync.OnceFunc(func() { close(c.answered) })
	c.watching <- struct{}{}
	c.forget = []func(){observe.CountBans(c.active), observe.TellListAge(c.age)}
	return c
}

func openFile(path string) *core {
	keeper := filelist.Open(path, Clock)
	c := newCore(keeper, path)
	c.close = keeper.Close
	content, err := keeper.Load(context.Background())
	c.begin(content, Now(), err)
	return c
}

func openRedis(key redisKey, conf *Redis) (*core, error) {
	keeper, err := redislist.Open(key.options(conf), Clock)
	if err != nil {
		return nil, err
	}
	c := newCore(keeper, "redis")
	c.close = keeper.Close
	c.copy = filepath.Join(key.listDir(), "copy")
	content, written, err := filelist.Read(c.copy)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.unreadable, c.copyTrouble = true, fmt.Errorf("cannot be read: %w", err)
	}
	c.copied = content
	c.begin(content, written, nil)
	keeper.Recall(content, c.restored)
	return c, nil
}

// listDir is the folder of what a node keeps on disk of the list of a Redis.
func (k redisKey) listDir() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %q", k.addresses, k.sentinel, k.db, k.prefix))
	return filepath.Join(listDir(), "redis-"+hex.EncodeToString(sum[:8]))
}

// listDir is the folder of what belongs to the configuration's list on disk.
func (a *App) listDir() string {
	if a.Redis == nil {
		return listDir()
	}
	return a.redisKey().listDir()
}

// begin puts what was found on disk in force, before anybody asks.
func (c *core) begin(content blocklist.Content, known time.Time, err error) {
	c.known = known
	c.publish(content)
	if err != nil {
		c.say(err)
	}
}

// publish compiles a content and tells all lists. If it cannot be compiled the part before stays.
func (c *core) publish(content blocklist.Content) {
	c.mu.Lock()
	part, before, err := c.part, c.content, c.bad
	c.mu.Unlock()
	if part == nil || !sameRules(before.Rules, content.Rules) {
		var made *blocklist.Part
		if made, err = blocklist.NewPart(runtimeRules, content.Rules, part); err == nil {
			part = made
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.content, c.part, c.bad = content, part, err
	for l := range c.lists {
		l.refresh(content, part)
	}
	close(c.next)
	c.next = make(chan struct{})
}

// sameRules reports whether two contents share one slice of rules.
func sameRules(a, b []*blocklist.Rule) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// join adds a list that is told of what comes, and tells it what there is.
func (c *core) join(l *List) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists[l] = struct{}{}
	l.refresh(c.content, c.part)
	l.heardCopy(c, c.copyTrouble)
}

func (c *core) leave(l *List) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.lists, l)
}

// run follows the keeper until ctx is done. Of several configurations that run at once, as during a
// reload, one does it for all.
func (c *core) run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-c.watching:
	}
	defer func() { c.watching <- struct{}{} }()
	var work sync.WaitGroup
	work.Go(func() { c.compile(ctx) })
	work.Go(func() { c.watchEnds(ctx) })
	if c.copy != "" {
		work.Go(func() { c.keepCopy(ctx) })
	}
	_ = c.keeper.Watch(ctx, func(content blocklist.Content) {
		c.pending.Store(&content)
		c.hear()
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}, func(err error) {
		c.say(err)
		if err != nil && !isFollowed(err) {
			c.answer()
		}
	})
	work.Wait()
}

// compile puts the latest content in force, and passes over those that came while it was at work.
func (c *core) compile(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
			if content := c.pending.Swap(nil); content != nil {
				c.publish(*content)
				c.answer()
			}
		}
	}
}

// hear notes that the keeper told of a content. What is wrong with a list that is followed stays so until
// the keeper says otherwise.
func (c *core) hear() {
	if !isFollowed(c.state().trouble) {
		c.say(nil)
	}
}

// isFollowed reports whether an error is about a list that is followed all the same.
func isFollowed(err error) bool {
	var denied *redislist.Denied
	return isUnreadable(err) || errors.As(err, &denied)
}

// isDamaged reports whether an error is about a file that somebody has damaged.
func isDamaged(err error) bool {
	var d *filelist.Damage
	return errors.As(err, &d)
}

// isUnreadable reports whether an error is about single rules and bans of a list that is otherwise
// followed.
func isUnreadable(err error) bool {
	var parts *redislist.Unreadable
	return errors.As(err, &parts)
}

// say notes what is wrong with the keeper, or with nil that nothing is.
func (c *core) say(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := Now()
	switch {
	case err == nil, isFollowed(err):
		c.known, c.since = now, time.Time{}
	case c.since.IsZero():
		c.since = now
	}
	c.trouble = err
	for l := range c.lists {
		l.heard(c, err)
	}
}

// state is how a core is.
type state struct {
	content    blocklist.Content
	known      time.Time
	since      time.Time
	trouble    error
	bad        error
	copyFault  error
	nextChange <-chan struct{}
}

func (c *core) state() state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return state{c.content, c.known, c.since, c.trouble, c.bad, c.copyTrouble, c.next}
}

// age is how long ago the content was known to be up to date: nothing, unless there is trouble.
func (c *core) age() time.Duration {
	s := c.state()
	if s.since.IsZero() {
		return 0
	}
	if s.known.IsZero() {
		s.known = s.since
	}
	return max(0, Now().Sub(s.known))
}

// active counts the bans in force by the zone that made them.
func (c *core) active() iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		now, zones := Now(), make(map[string]int)
		for b := range c.state().content.Bans.All() {
			if !b.Over(now) {
				zones[b.Zone]++
			}
		}
		if n, some := zones[""]; some {
			delete(zones, "")
			zones["_operator"] = n
		}
		for zone, n := range zones {
			if !yield(zone, n) {
				return
			}
		}
	}
}

// await waits until a version is in force, or one after it.
func (c *core) await(ctx context.Context, version uint64) error {
	for {
		s := c.state()
		if s.content.Version >= version {
			return s.bad
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.nextChange:
		}
	}
}

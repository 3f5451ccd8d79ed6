package config

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/internal/observe"
)

// A memoryList is a shared list that several nodes have in common. A node sees what was made only
// after it has looked.
type memoryList struct {
	mu      sync.Mutex
	content blocklist.Content
	applies int
	err     error // of all that is asked of it
}

// A listView is what one node sees of it.
type listView struct {
	*memoryList
	now  func() time.Time
	seen blocklist.Content
	mode blocklist.Mode
}

func (v *listView) look() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen = v.content
}

func (v *listView) HasBans(zone string) bool { return v.seen.Bans.Zone(zone) > 0 }

func (v *listView) Banned(zone, name string, now time.Time) (*blocklist.Ban, bool) {
	b := v.seen.Bans.Find(blocklist.Scope{Kind: blocklist.ScopeZone, Name: zone}, name, now)
	return b, b != nil
}

func (v *listView) BannedByOthers(zone, name string, now time.Time) (*blocklist.Ban, bool) {
	b := v.seen.Bans.FindByOthers(zone, name, now)
	return b, b != nil
}

func (v *listView) Ban(id blocklist.BanID) (*blocklist.Ban, bool) {
	b := v.seen.Bans.Get(id)
	return b, b != nil
}

func (v *listView) Children(scope blocklist.Scope, parent string, now time.Time) int {
	return v.seen.Bans.Children(scope, parent, now)
}

func (v *listView) Content() blocklist.Content { return v.seen }
func (v *listView) Mode() blocklist.Mode       { return v.mode }

func (v *listView) Apply(_ context.Context, c blocklist.Change, _ netip.Addr, _ bool) (uint64, []blocklist.Danger, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err != nil {
		return 0, nil, v.err
	}
	for i := range c.Ban {
		if strings.HasPrefix(c.Ban[i].Evidence.Client, "198.51.100.") {
			return 0, []blocklist.Danger{{Rule: c.Ban[i].Key, Why: "holds a protected address"}}, errors.New("dangerous")
		}
	}
	if err := c.Prepare(v.now()); err != nil {
		return 0, nil, err
	}
	next, _, err := v.content.Apply(c)
	if err == nil {
		v.content, v.applies = next, v.applies+1
	}
	return next.Version, nil, err
}

// len returns how many bans there are.
func (l *memoryList) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.content.Bans.Len()
}

// fail sets what the list answers from now on.
func (l *memoryList) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// A banNode is one node with zones that ban.
type banNode struct {
	*Meter
	t     *testing.T
	list  *listView
	begun []observe.Begun
}

// banning builds a node whose handler has this configuration, on a list and by a clock.
func banning(t *testing.T, list *memoryList, now func() time.Time, config string) *banNode {
	t.Helper()
	s := build(t, `{}`)
	n := &banNode{t: t, list: &listView{memoryList: list, now: now}}
	s.bans.list, s.bans.now, s.bans.held = n.list, now, new(heldBans)
	s.bans.name = func(key string) (string, bool) { return "name of " + key, true }
	s.bans.protected = func(a netip.Addr) bool { return a == netip.MustParseAddr("203.0.113.250") }
	s.bans.began = func(b observe.Begun) { n.begun = append(n.begun, b) }
	s.bans.counter = &banCounts{local: s.bans.counter.(*banCounts).local, over: s.bans.over, most: 1000, logger: s.logger}
	n.Meter = s.meter(t, config)
	return n
}

// round does what the background work does, and sees what came of it.
func (n *banNode) round() {
	n.shared.bans.round(n.t.Context())
	n.list.look()
	n.shared.bans.settle(n.shared.bans.now())
}

// send sends a request that the application answers with this status; the answer is that, or
// that of a refusal.
func (n *banNode) send(r *http.Request, status int) int {
	n.t.Helper()
	d, err := n.Read(r)
	if err != nil {
		n.t.Fatal(err)
	}
	if !d.Allowed {
		refusal := http.StatusTooManyRequests
		if d.Status != 0 {
			refusal = d.Status
		}
		MarkRefused(r)
		n.Refused(d, r, refusal)
		return refusal
	}
	w := httptest.NewRecorder()
	err = n.Serve(d, w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(status)
		return nil
	}))
	if err != nil {
		n.t.Fatal(err)
	}
	return w.Code
}

// sends sends so many requests of a client, and wants these answers.
func (n *banNode) sends(client string, status int, want ...int) {
	n.t.Helper()
	for i, w := range want {
		if got := n.send(from(client, "/login"), status); got != w {
			n.t.Errorf("%s: answer %d is %d, want %d", client, i+1, got, w)
		}
	}
}

// A testClock stands still until it is moved.
type testClock struct {
	mu  sync.Mutex
	now time.Time
}

func newTestClock() *testClock { return &testClock{now: banStart} }

func (c *testClock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

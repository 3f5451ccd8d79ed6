package config

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/limiter"
)

// A ban that is made while the list is away holds here, and is shared as soon as the list is
// back, with its absolute end.
func TestBanWhileListIsAway(t *testing.T) {
	clock, list := newTestClock(), new(memoryList)
	one := banning(t, list, clock.read, login(``))
	two := banning(t, list, clock.read, login(``))
	core, logs := observer.New(zap.InfoLevel)
	one.shared.bans.logger = zap.New(core)
	wantLines := func(alone, again int) {
		t.Helper()
		if a, b := logs.FilterMessageSnippet("cannot be put on the shared list").Len(), logs.FilterMessageSnippet("can be put on the shared list again").Len(); a != alone || b != again {
			t.Errorf("%d and %d lines, want %d and %d", a, b, alone, again)
		}
	}
	list.fail(limiter.ErrUnavailable)
	one.sends("203.0.113.1", 401, 401, 401, 401)
	one.round()
	one.round()
	wantLines(1, 0)
	one.sends("203.0.113.1", 200, 429)
	two.round()
	two.sends("203.0.113.1", 200, 200)

	clock.move(4 * time.Minute)
	list.fail(nil)
	one.round()
	wantLines(1, 1)
	two.round()
	two.sends("203.0.113.1", 200, 429)
	clock.move(6 * time.Minute)
	one.sends("203.0.113.1", 200, 200)
	two.sends("203.0.113.1", 200, 200)
}

// While the secret is unknown by which keys are named, a ban holds by its key, and gets its name
// later.
func TestBanWithoutName(t *testing.T) {
	clock, list := newTestClock(), new(memoryList)
	n := banning(t, list, clock.read, login(``))
	named := n.shared.bans.name
	n.shared.bans.name = func(string) (string, bool) { return "", false }
	n.sends("203.0.113.1", 401, 401, 401, 401, 429)
	n.round()
	n.sends("203.0.113.1", 401, 429)
	if list.len() != 0 {
		t.Error("a ban without a name is on the list")
	}
	n.shared.bans.name = named
	n.round()
	n.sends("203.0.113.1", 401, 429)
	if n.shared.bans.held.any() || list.len() != 1 {
		t.Errorf("%d bans are on the list", list.len())
	}
}

// One ban that the list refuses does not hold up the others, and does not hold here.
func TestBanRefusedByList(t *testing.T) {
	n := banning(t, new(memoryList), newTestClock().read,
		`{"log_key": true, `+login(``)[1:])
	for _, client := range []string{"203.0.113.1", "198.51.100.7", "203.0.113.2"} {
		n.sends(client, 401, 401, 401, 401)
	}
	n.round()
	n.round()
	n.sends("203.0.113.1", 200, 429)
	n.sends("203.0.113.2", 200, 429)
	n.sends("198.51.100.7", 200, 200)
	if n.shared.bans.held.any() || n.list.seen.Bans.Len() != 2 {
		t.Errorf("%d bans are on the list", n.list.seen.Bans.Len())
	}
	// Where keys are logged the address is part of the evidence.
	for b := range n.list.seen.Bans.All() {
		if b.Evidence.Client == "" {
			t.Errorf("no client in %+v", b.Evidence)
		}
	}
}

// A rolling ban begins anew with each attempt, on all nodes, with few changes for many attempts.
func TestBanRolls(t *testing.T) {
	clock, list := newTestClock(), new(memoryList)
	one := banning(t, list, clock.read, login(`, "rolling": "30m"`))
	two := banning(t, list, clock.read, login(`, "rolling": "30m"`))
	one.sends("203.0.113.1", 401, 401, 401, 401)
	one.round()
	two.round()
	applies := list.applies
	for range 8 * 60 {
		clock.move(time.Second)
		two.sends("203.0.113.1", 401, 429)
		two.round()
	}
	if n := list.applies - applies; n < 5 || n > 9 {
		t.Errorf("480 attempts in 8 minutes made %d changes", n)
	}
	one.round()
	clock.move(9 * time.Minute)
	one.sends("203.0.113.1", 200, 429)
	one.round()
	// At the ceiling it is over, whatever is tried.
	for clock.read().Before(banStart.Add(30 * time.Minute)) {
		one.sends("203.0.113.1", 200, 429)
		one.round()
		clock.move(13 * time.Second)
	}
	one.sends("203.0.113.1", 200, 200)
}

// A request that looks just while a ban moves from the node that made it to the list finds it
// at the one or at the other.
func TestBanMovesWhileARequestLooks(t *testing.T) {
	n := banning(t, new(memoryList), newTestClock().read, login(``))
	n.sends("203.0.113.1", 401, 401, 401, 401)
	moves := &movingList{listView: n.list, move: n.round}
	n.shared.bans.list = moves
	n.sends("203.0.113.1", 200, 429)
	if moves.move != nil || n.shared.bans.held.any() {
		t.Error("the ban did not move")
	}
}

// A movingList takes over what is held right after it was first asked, and says then what it had before.
type movingList struct {
	*listView
	move func()
}

func (l *movingList) HasBans(zone string) bool {
	had := l.listView.HasBans(zone)
	if move := l.move; move != nil {
		l.move = nil
		move()
	}
	return had
}

// L125: a ban ends however its nodes' clocks differ: each by its own.
func TestBanClocksDiffer(t *testing.T) {
	behind, list := newTestClock(), new(memoryList)
	ahead := func() time.Time { return behind.read().Add(30 * time.Second) }
	one, two := banning(t, list, behind.read, login(``)), banning(t, list, ahead, login(``))
	one.sends("203.0.113.1", 401, 401, 401, 401)
	one.round()
	two.round()
	behind.move(9*time.Minute + 29*time.Second)
	one.sends("203.0.113.1", 200, 429)
	two.sends("203.0.113.1", 200, 429)
	behind.move(time.Second)
	one.sends("203.0.113.1", 200, 429)
	two.sends("203.0.113.1", 200, 200)
}

// B05: who hops through /64s of one /56 is banned as the /56, and through /56s as the /48, each
// by as many neighbours as are wanted.
func TestBanRollsUp(t *testing.T) {
	clock, list := newTestClock(), new(memoryList)
	config := login(`, "rollup": {"neighbours": 3}`)
	one, two := banning(t, list, clock.read, config), banning(t, list, clock.read, config)
	network := func(i, j int) string { return fmt.Sprintf("[2001:db8:7:%x%02x::1]", i, j) }
	ban := func(n *banNode, client string) {
		t.Helper()
		n.sends(client, 401, 401, 401, 401)
		n.round()
		n.round()
	}
	ban(one, network(1, 0))
	ban(two, network(1, 1))
	one.round()
	one.sends(network(1, 9), 200, 200)
	ban(one, network(1, 2))
	two.round()
	one.sends(network(1, 9), 200, 429)
	two.sends(network(1, 9), 200, 429)
	two.sends(network(2, 9), 200, 200)

	for i := 2; i <= 3; i++ {
		for j := range 3 {
			ban(two, network(i, j))
		}
	}
	two.round()
	one.round()
	one.sends(network(9, 9), 200, 429)
	two.sends(network(9, 9), 200, 429)
	two.sends("[2001:db8:8::1]", 200, 200)

	// An IPv4 network has many owners: it is banned only where that is written.
	for i := range 5 {
		ban(one, fmt.Sprintf("203.0.113.%d", i))
	}
	one.sends("203.0.113.99", 200, 200)
	four := banning(t, list, clock.read, login(`, "rollup": {"neighbours": 2, "ipv4": [24], "ipv6": []}`))
	ban(four, "198.18.0.1")
	ban(four, "198.18.0.2")
	four.sends("198.18.0.9", 200, 429)
	four.sends("198.18.1.9", 200, 200)
}

// Roll-up works while the list is away as well.
func TestBanRollsUpAlone(t *testing.T) {
	list := new(memoryList)
	list.fail(limiter.ErrUnavailable)
	n := banning(t, list, newTestClock().read, login(`, "rollup": {"neighbours": 2}`))
	n.sends("[2001:db8:7:1::1]", 401, 401, 401, 401)
	n.sends("[2001:db8:7:2::1]", 401, 401, 401, 401)
	n.round()
	n.sends("[2001:db8:7:3::1]", 200, 429)
}

// A dry run tells what it would do, and nobody else.
func TestBanDryRun(t *testing.T) {
	clock, list := newTestClock(), new(memoryList)
	n := banning(t, list, clock.read, login(`, "dry_run": true`))
	var seen outcomes
	n.shared.Observers = append(n.shared.Observers, &seen)
	n.sends("203.0.113.1", 401, 401, 401, 401, 401)
	n.round()
	if len(n.begun) != 1 || !n.begun[0].Dry || list.applies != 0 {
		t.Errorf("%d bans were told of, and %d changes made", len(n.begun), list.applies)
	}
	if got := fmt.Sprint(seen); got != "[login allowed login allowed login allowed login dry_banned login allowed]" {
		t.Errorf("outcomes %s", got)
	}
	clock.move(10 * time.Minute)
	n.round()
	seen = nil
	n.sends("203.0.113.1", 200, 200)
	if got := fmt.Sprint(seen); got != "[login allowed]" {
		t.Errorf("outcomes once it is over %s", got)
	}
}

// B10: bans that a process holds by itself are bounded, and those that end first go.
func TestHeldBansAreBounded(t *testing.T) {
	const most = 1000
	held := heldBans{most: most}
	for i := range most + 10 {
		until := banStart.Add(time.Duration(most-i) * time.Second)
		held.put(heldBan{subject: subject{"login", fmt.Sprint(i)}, ban: &blocklist.Ban{Until: until}})
	}
	if n := len(held.all()); n > most || n < most*98/100 {
		t.Errorf("%d bans are held", n)
	}
	if _, ok := held.find(subject{"login", "0"}); !ok {
		t.Error("the one that ends last went")
	}
	if _, ok := held.find(subject{"login", fmt.Sprint(most - 1)}); ok {
		t.Error("one that ends first stayed")
	}
	held.forget(banStart.Add(most * time.Second))
	if held.any() {
		t.Errorf("%d are held after all have ended", len(held.all()))
	}
}

// What is remembered of requests is bounded too, and holds none of their room.
func TestWitnessesAreBounded(t *testing.T) {
	var w witnesses
	r := from("203.0.113.1", "/login")
	for i := range 5 * mostWitnessed {
		r.Header.Set("User-Agent", fmt.Sprint("agent", i))
		w.note(subject{"login", fmt.Sprint(i)}, r, ClientIP(r), 401, banStart)
	}
	if n := len(w.young) + len(w.old); n > 2*mostWitnessed {
		t.Errorf("%d are remembered", n)
	}
	if e := w.last(subject{"login", fmt.Sprint(5*mostWitnessed - 1)}); e.agent != fmt.Sprint("agent", 5*mostWitnessed-1) || e.status != 401 {
		t.Errorf("the last is remembered as %+v", e)
	}
}

// In a full table of counts nobody is banned for what another did (B44).
func TestBanNobodyWhenCountsAreFull(t *testing.T) {
	n := banning(t, new(memoryList), newTestClock().read, login(``))
	n.shared.bans.counter.(*banCounts).most = 4
	for i := range 3 {
		n.sends(fmt.Sprintf("203.0.113.%d", i), 401, 401)
	}
	n.sends("203.0.113.9", 401, 401, 401, 401, 401)
}

// The background work shares bans by itself, and ends.
func TestBansRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := new(memoryList)
		n := banning(t, list, time.Now, login(``))
		var work sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		work.Go(func() { n.shared.bans.run(ctx) })
		n.sends("203.0.113.1", 401, 401, 401, 401)
		synctest.Wait()
		if got := list.len(); got != 1 {
			t.Errorf("%d bans are on the list", got)
		}
		list.fail(limiter.ErrUnavailable)
		n.sends("203.0.113.2", 401, 401, 401, 401)
		synctest.Wait()
		list.fail(nil)
		<-time.After(2 * banRound)
		if got := list.len(); got != 2 {
			t.Errorf("%d bans are on the list after an outage", got)
		}
		cancel()
		work.Wait()
	})
}

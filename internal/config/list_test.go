package config

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
)

// TestMain keeps tests away from the data of whoever runs them.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "weir-data")
	if err != nil {
		panic(err)
	}
	if err := os.Setenv("XDG_DATA_HOME", dir); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// listFrom builds an app of its own data directory, unless that is given by the test, and runs it until the
// test ends.
func listFrom(t *testing.T, text string) *Shared {
	t.Helper()
	s := build(t, text)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return s
}

// ownData gives the test a data directory of its own.
func ownData(t *testing.T) {
	t.Helper()
	t.Setenv("XDG_DATA_HOME", t.TempDir())
}

func appFrom(t *testing.T, text string) *App {
	t.Helper()
	a := new(App)
	if err := json.Unmarshal([]byte(text), a); err != nil {
		t.Fatal(err)
	}
	return a
}

func listRule(t *testing.T, text string) blocklist.Rule {
	t.Helper()
	r, err := blocklist.ParseRule(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestListInFile(t *testing.T) {
	ownData(t)
	s := listFrom(t, `{"block": {"allow": ["203.0.113.7"], "protect": ["192.0.2.0/24"]}}`)
	l := s.List()
	version, _, err := l.Apply(t.Context(), blocklist.Change{By: "anna", Put: []blocklist.Rule{listRule(t, "x client_ip=203.0.113.0/24")}}, netip.Addr{}, false)
	if err != nil || version != 1 || l.Content().Version != 1 {
		t.Fatalf("version %d, %v", version, err)
	}
	q := &blocklist.Request{Source: blocklist.HTTP, Client: netip.MustParseAddr("203.0.113.9")}
	if d := l.Check(q, Now()); d.Rule == nil || d.Rule.Name != "x" {
		t.Errorf("says %+v", d)
	}
	q.Client = netip.MustParseAddr("203.0.113.7")
	if d := l.Check(q, Now()); !d.None() {
		t.Errorf("of an allowed client: %+v", d)
	}
	// What could lock out needs force.
	me := netip.MustParseAddr("198.51.100.9")
	wide := blocklist.Change{By: "anna", Put: []blocklist.Rule{listRule(t, "me client_ip=198.51.100.0/24"), listRule(t, "home client_ip=127.0.0.1")}}
	_, dangers, err := l.Apply(t.Context(), wide, me, false)
	if !errors.Is(err, ErrDangerous) || len(dangers) != 2 {
		t.Errorf("%v, %v", dangers, err)
	}
	if _, dangers, err = l.Apply(t.Context(), wide, me, true); err != nil || len(dangers) != 2 {
		t.Errorf("forced: %v, %v", dangers, err)
	}
	for addr, want := range map[string]bool{"127.0.0.1": true, "192.0.2.9": true, "203.0.113.7": true, "::ffff:192.0.2.9": true, "198.51.100.9": false} {
		if got := s.Protected(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s is protected: %v", addr, got)
		}
	}
	if off := blocklist.Off; true {
		if _, _, err := l.Apply(t.Context(), blocklist.Change{By: "anna", Mode: &off}, me, false); err != nil || l.Mode() != blocklist.Off {
			t.Errorf("mode %s, %v", l.Mode(), err)
		}
	}
	if all, err := l.Trail(t.Context(), 10); err != nil || len(all) != 3 {
		t.Errorf("%d records, %v", len(all), err)
	}
	_, _, err = l.Apply(t.Context(), blocklist.Change{By: "anna", Remove: []string{"none"}}, me, false)
	if !errors.Is(err, blocklist.ErrRefused) {
		t.Error(err)
	}
	if state := l.State(); state.Where != ListPath() || state.Version != 3 || state.Error != "" || state.Age != 0 {
		t.Errorf("%+v", state)
	}
	if Live() != s {
		t.Error("is not the one that lives")
	}
}

// A reload, and a restart, keep the list; and names stay what they were.
func TestListSurvives(t *testing.T) {
	ownData(t)
	s := build(t, `{}`)
	name, known := s.Name("192.0.2.1")
	if !known {
		t.Fatal("has no names")
	}
	ban := blocklist.Ban{Key: name, Bits: 32, Origin: "op", Until: Now().Add(time.Hour), Scope: blocklist.Scope{Kind: blocklist.ScopeZone, Name: "z"}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond) // nobody runs it
	defer cancel()
	if _, _, err := s.List().Apply(ctx, blocklist.Change{By: "zone z", Auto: true, Ban: []blocklist.Ban{ban}}, netip.Addr{}, true); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = build(t, `{}`)
	again, _ := s.Name("192.0.2.1")
	got, banned := s.List().Banned("z", again, Now())
	if again != name || !banned || !got.Until.Equal(ban.Until.UTC().Round(0)) || !s.List().HasBans("z") || s.List().HasBans("y") {
		t.Errorf("%q, then %q: %v", name, again, got)
	}
	if last, ok := s.List().LastBan("z", again, "op"); !ok || last != got {
		t.Errorf("%v", last)
	}
	if _, banned := s.List().Banned("y", again, Now()); banned {
		t.Error("is banned from another zone")
	}
	if _, banned := s.List().Banned("z", again, Now().Add(2*time.Hour)); banned {
		t.Error("is banned for ever")
	}
}

// B46: with Redis away at the start the copy on disk counts, names included.
func TestListCopy(t *testing.T) {
	ownData(t)
	server := redistest.Start(t, redistest.Options{})
	text := `{"redis": {"addresses": ["` + server.Addr() + `"], "timeout": "2s"}, "block": {}}`
	s := build(t, text)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	if err := s.pooled.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	name, known := s.Name("203.0.113.9")
	if !known {
		t.Fatal("has no names")
	}
	ban := blocklist.Ban{Key: name, Bits: 32, Origin: "op", Until: Now().Add(time.Hour)}
	if _, _, err := s.List().Apply(ctx, blocklist.Change{By: "op", Ban: []blocklist.Ban{ban}, Put: []blocklist.Rule{listRule(t, "x path=/x")}}, netip.Addr{}, true); err != nil {
		t.Fatal(err)
	}
	s.List().names.save()
	cancel()
	<-done
	_ = s.Close()
	server.Stop()

	s = listFrom(t, text)
	q := &blocklist.Request{Source: blocklist.HTTP, Client: netip.MustParseAddr("203.0.113.9"), Path: "/"}
	if d := s.List().Check(q, Now()); d.Ban == nil {
		t.Error("the ban is gone")
	}
	q.Client, q.Path = netip.MustParseAddr("203.0.113.8"), "/x"
	if d := s.List().Check(q, Now()); d.Rule == nil {
		t.Error("the rule is gone")
	}
	_, _, err := s.List().Apply(t.Context(), blocklist.Change{By: "op", Remove: []string{"x"}}, netip.Addr{}, false)
	if !errors.Is(err, limiter.ErrUnavailable) {
		t.Errorf("a change: %v", err)
	}
}

// B46: lists of others count from the first request, and a bad one is told of.
func TestListFiles(t *testing.T) {
	ownData(t)
	path := filepath.Join(t.TempDir(), "own.netset")
	if err := os.WriteFile(path, []byte("203.0.113.0/24\n127.0.0.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := build(t, `{"block": {"files": [{"path": "`+path+`"}, {"path": "`+path+`.none", "name": "none"}]}}`)
	q := &blocklist.Request{Source: blocklist.HTTP, Client: netip.MustParseAddr("203.0.113.9")}
	if d := s.List().Check(q, Now()); d.Rule == nil || d.Rule.Name != "own.netset" || s.List().Seen(d.Hit).Name != "own.netset" {
		t.Errorf("says %+v", d)
	}
	all := s.List().Sources()
	if len(all) != 2 || all[0].Prefixes != 1 || all[0].Stripped == 0 || all[1].Error == "" {
		t.Errorf("%+v", all)
	}
}

func TestSharedBlockErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{"mode": "maybe"}`:                                     `block: mode: must be enforce, dry_run or off, got "maybe"`,
		`{"allow": ["x"]}`:                                      `block: allow: "x": must be an address or a CIDR range`,
		`{"protect": ["10.0.0.0/40"]}`:                          `block: protect: "10.0.0.0/40": must have a length from 0 to 32 after the slash`,
		`{"files": [{}]}`:                                       `must have a path`,
		`{"files": [{"path": "/a/x"}, {"path": "/b/x"}]}`:       `block: file "/b/x": there are two lists of this name`,
		`{"files": [{"path": "/a", "format": "pdf"}]}`:          `block: file "/a": format: must be auto`,
		`{"files": [{"path": "/a", "action": 200}]}`:            `action: must be a status from 400 to 599`,
		`{"urls": [{"url": "ftp://lists.example/a"}]}`:          `block: url 1: `,
		`{"urls": [{"url": "http://l.example", "refresh": 1}]}`: `block: url 1: refresh: `,
	} {
		err := appFrom(t, `{"block": `+text+`}`).Validate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

package config

import (
	"bytes"
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/blocklist/filelist"
	"github.com/weirhq/caddy-weir/internal/redistest"
)

// aNode is a node with the shared list in Redis, from its start to its end.
type aNode struct {
	*Shared
	logs *observer.ObservedLogs
	stop func()
}

func startNode(t *testing.T, server *redistest.Server) *aNode {
	t.Helper()
	s := build(t, `{"redis": {"addresses": ["`+server.Addr()+`"], "timeout": "2s"}, "block": {}}`)
	core, logs := observer.New(zap.InfoLevel)
	s.list.logger = zap.New(core)
	// What was found wrong with the copy was logged already, by another logger.
	c := s.list.core.Load()
	c.mu.Lock()
	c.copyTold = false
	s.list.heardCopy(c, c.copyTrouble)
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	n := &aNode{Shared: s, logs: logs}
	n.stop = func() {
		cancel()
		<-done
		_ = s.Close()
	}
	t.Cleanup(n.stop)
	return n
}

func (n *aNode) apply(t *testing.T, c blocklist.Change) {
	t.Helper()
	c.By = "op"
	if _, _, err := n.list.Apply(t.Context(), c, netip.Addr{}, true); err != nil {
		t.Fatal(err)
	}
}

func (n *aNode) logged(message string) int { return n.logs.FilterMessageSnippet(message).Len() }

func copyPath(n *aNode) string { return n.list.core.Load().copy }

// Redis lost everything while no node ran: the first one that starts gives it back what its disk has.
func TestListIsGivenBackFromDisk(t *testing.T) {
	ownData(t)
	server := redistest.Start(t, redistest.Options{})
	n := startNode(t, server)
	ban := blocklist.Ban{Key: "k", Origin: "op", Until: Now().Add(time.Hour)}
	short := listRule(t, "short path=/s")
	short.Expires = Now().Add(50 * time.Millisecond)
	dry := blocklist.DryRun
	n.apply(t, blocklist.Change{Put: []blocklist.Rule{listRule(t, "a path=/a"), short}, Ban: []blocklist.Ban{ban}, Mode: &dry})
	n.apply(t, blocklist.Change{Put: []blocklist.Rule{listRule(t, "b path=/b")}})
	n.stop()
	awaits(t, "a rule is over", func() bool { return Now().After(short.Expires) })

	server.Do("FLUSHALL")
	n = startNode(t, server)
	awaits(t, "it is in force", func() bool {
		c := n.list.Content()
		return c.Version > 2 && len(c.Rules) == 2 && c.Bans.Len() == 1 && c.Mode == blocklist.DryRun
	})
	awaits(t, "it is logged", func() bool { return n.logged("was given back") == 1 })
	if there := server.Do("HGET weir:{block}:state version"); there == "" || there == "0" {
		t.Errorf("Redis has version %q", there)
	}
	trail, err := n.list.Trail(t.Context(), 10)
	if err != nil || len(trail) != 1 || trail[0].Change.By != "restore" {
		t.Errorf("the trail says %v, %v", trail, err)
	}
	n.stop()

	// What somebody has begun anew since then, without a disk, stays, and gets the rest.
	server.Do("FLUSHALL")
	disk := os.Getenv("XDG_DATA_HOME")
	ownData(t)
	n = startNode(t, server)
	n.apply(t, blocklist.Change{Put: []blocklist.Rule{listRule(t, "new path=/new")}})
	n.stop()
	t.Setenv("XDG_DATA_HOME", disk)
	n = startNode(t, server)
	awaits(t, "it has all of it", func() bool { return len(n.list.Content().Rules) == 3 })
}

// Whoever gives the list back last waits for its copy: the process may end at once.
func TestListCopyIsWrittenBeforeTheEnd(t *testing.T) {
	ownData(t)
	server := redistest.Start(t, redistest.Options{})
	s := build(t, `{"redis": {"addresses": ["`+server.Addr()+`"], "timeout": "2s"}, "block": {}}`)
	ctx, cancel := context.WithCancel(context.Background())
	go s.Run(ctx)
	n := &aNode{Shared: s}
	n.apply(t, blocklist.Change{Put: []blocklist.Rule{listRule(t, "a path=/a")}})
	path := copyPath(n)
	cancel()
	_ = s.Close()
	if got, _, err := filelist.Read(path); err != nil || len(got.Rules) != 1 {
		t.Errorf("the copy is %+v, %v", got, err)
	}
}

// A list that only seems to be lost is not given back: what was taken out of it meanwhile stays out.
func TestListIsNotGivenBackForNothing(t *testing.T) {
	ownData(t)
	server := redistest.Start(t, redistest.Options{})
	n := startNode(t, server)
	n.apply(t, blocklist.Change{Put: []blocklist.Rule{listRule(t, "a path=/a"), listRule(t, "b path=/b")}})
	n.stop()
	old, err := os.ReadFile(copyPath(n))
	if err != nil {
		t.Fatal(err)
	}
	n = startNode(t, server)
	n.apply(t, blocklist.Change{Remove: []string{"a"}})
	n.stop()
	// The disk of a node that was away for a while.
	if err := os.WriteFile(copyPath(n), old, 0o600); err != nil {
		t.Fatal(err)
	}
	n = startNode(t, server)
	awaits(t, "it has caught up", func() bool { return n.list.Content().Version == 2 })
	if c := n.list.Content(); len(c.Rules) != 1 || n.logged("was given back") > 0 {
		t.Errorf("%d rules", len(c.Rules))
	}
}

// A disk that takes no copy is told of once, by the log and by the list, and the list is in force. Once the disk
// takes one it is good again.
func TestListCopyCannotBeWritten(t *testing.T) {
	ownData(t)
	server := redistest.Start(t, redistest.Options{})
	// No folder can be made where a file is: as on a full disk, whoever runs the test.
	dir := filepath.Dir(listDir())
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := build(t, `{"redis": {"addresses": ["`+server.Addr()+`"]}, "block": {}}`)
	zaps, logs := observer.New(zap.InfoLevel)
	s.list.logger = zap.New(zaps)
	c := s.list.core.Load()
	c.copyTold = false // by another logger
	logged := func(message string) int { return logs.FilterMessageSnippet(message).Len() }
	content := blocklist.Content{}
	publish := func(name string) {
		rule := listRule(t, name+" path=/"+name)
		content = content.Patch(blocklist.Change{Put: []blocklist.Rule{rule}}, content.Version+1)
		c.publish(content)
		c.writeCopy() // as keepCopy does
	}
	for _, name := range []string{"a", "b", "c"} {
		publish(name)
		if n := logged("copy of the shared block list on disk is of no use"); n != 1 {
			t.Errorf("it was logged %d times", n)
		}
		if d := s.list.Check(&blocklist.Request{Source: blocklist.HTTP, Path: "/" + name}, Now()); d.Rule == nil {
			t.Errorf("rule %s is not in force", name)
		}
	}
	if state := s.list.State(); !strings.Contains(state.CopyError, "cannot be written: ") || state.Error != "" {
		t.Errorf("state %+v", state)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.writeCopy(); !ok || logged("on disk is good again") != 1 || s.list.State().CopyError != "" {
		t.Errorf("state %+v", s.list.State())
	}
	if got, _, err := filelist.Read(c.copy); err != nil || got.Version != 3 || len(got.Rules) != 3 {
		t.Errorf("the copy is %+v, %v", got, err)
	}
}

// A start with a copy that cannot be read says so, blocks what Redis says, and keeps what was there aside.
func TestListCopyCannotBeRead(t *testing.T) {
	ownData(t)
	server := redistest.Start(t, redistest.Options{})
	n := startNode(t, server)
	n.apply(t, blocklist.Change{Put: []blocklist.Rule{listRule(t, "a path=/a")}})
	n.stop()
	path := copyPath(n)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("path=/a"), []byte("path=/z"), 1)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	server.Pause()
	n = startNode(t, server)
	if s := n.list.State(); !strings.Contains(s.CopyError, "cannot be read: ") || n.logged("copy of the shared block list on disk is of no use") != 1 {
		t.Errorf("state %+v", s)
	}
	server.Resume()
	awaits(t, "the list is in force", func() bool {
		return n.list.Check(&blocklist.Request{Source: blocklist.HTTP, Path: "/a"}, Now()).Rule != nil
	})
	awaits(t, "the copy is good again", func() bool { return n.list.State().CopyError == "" })
	if kept, err := os.ReadFile(path + ".broken"); err != nil || !bytes.Equal(kept, text) {
		t.Errorf("kept %q, %v", kept, err)
	}
}

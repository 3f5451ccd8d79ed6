package config

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/blocklist/filelist"
	"github.com/weirhq/caddy-weir/limiter/redisstore"
)

// A list in a file is found by its path, and by the folder that Caddy keeps it in.
func TestFilePlace(t *testing.T) {
	dir := t.TempDir()
	if _, err := FilePlace(dir, false, nil); err == nil || !strings.Contains(err.Error(), "no list at "+filepath.Join(dir, "list")) {
		t.Errorf("of an empty folder: %v", err)
	}
	path := filepath.Join(dir, "list")
	kept := filelist.Open(path, nil)
	change := blocklist.Change{By: "t", Put: []blocklist.Rule{listRule(t, "x path=/x")}}
	if _, err := kept.Apply(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	if err := kept.Close(); err != nil {
		t.Fatal(err)
	}
	folder, err := FilePlace(dir, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	if c, err := folder.Keeper.Load(t.Context()); err != nil || len(c.Rules) != 1 || folder.Where != path {
		t.Errorf("%d rules in %s, %v", len(c.Rules), folder.Where, err)
	}
}

// Where a list in Redis is tells prefix and database, which a command line may have wrong.
func TestRedisPlace(t *testing.T) {
	p, err := RedisPlace(redisstore.Options{Addresses: []string{"127.0.0.1:1"}, DB: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if want := `redis, database 2, under the prefix "weir:"`; p.Where != want {
		t.Errorf("is %s, want %s", p.Where, want)
	}
}

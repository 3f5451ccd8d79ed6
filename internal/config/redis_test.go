package config

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/weirhq/caddy-weir/internal/redistest"
)

func TestRedisMeaning(t *testing.T) {
	for _, c := range []struct{ redis, problem string }{
		{`"addresses": ["one:6379"]`, ""},
		{`"addresses": ["one:6379", "two:6379"]`, ""},
		{`"addresses": ["one:6379"], "cluster": true`, ""},
		{`"addresses": ["one:26379", "two:26379"], "sentinel": "main", "db": 3`, ""},
		{`"addresses": ["unix:///run/redis.sock"]`, ""},
		{`"addresses": ["one:6379"], "tls": {}`, ""},
		{`"addresses": ["one:6379"], "tls": {"ca": "/a", "cert": "/b", "key": "/c", "server_name": "d"}`, ""},
		{``, "redis: addresses: must be at least one"},
		{`"addresses": ["one:6379"], "cluster": true, "sentinel": "main"`, "redis: cluster: cannot be had with sentinel: a cluster has no sentinels"},
		{`"addresses": ["one:6379", "two:6379"], "db": 1`, "redis: db: must be 0 in a cluster, got 1"},
		{`"addresses": ["one:6379"], "cluster": true, "db": 1`, "redis: db: must be 0 in a cluster, got 1"},
		{`"addresses": ["one:6379"], "tls": {"cert": "/b"}`, "redis: tls: cert and key: must both be given, or neither"},
		{`"addresses": ["one:6379"], "tls": {"key": "/b"}`, "redis: tls: cert and key: must both be given, or neither"},
		{`"addresses": ["one:6379"], "username": "u"`, "redis: username: needs a password"},
	} {
		var app App
		if err := json.Unmarshal([]byte(`{"redis": {`+c.redis+`}}`), &app); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := app.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.problem {
			t.Errorf("%s: got %q, want %q", c.redis, got, c.problem)
		}
	}
}

// What only the store can tell is refused while the configuration is loaded, and no message
// repeats a secret.
func TestRedisAddresses(t *testing.T) {
	ctx, err := caddy.ProvisionContext(new(caddy.Config))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ redis, problem string }{
		{`"addresses": ["one"]`, "must be host:port or a URL"},
		{`"addresses": ["redis://:hunter2/x@one:6379"]`, "percent-encoded"},
		{`"addresses": ["unix:///run/one.sock", "two:6379"]`, "a socket stands for a server of its own"},
		{`"addresses": ["redis://:hunter2@one:6379", "redis://:hunter3@two:6379"]`, "the same user, password and database"},
		{`"addresses": ["rediss://one:6379", "two:6379"]`, "use TLS alike"},
		{`"addresses": ["redis://one:6379/2", "redis://two:6379/2"]`, "db: a cluster has only 0, got 2"},
		{`"addresses": ["one:6379"], "tls": {"ca": "{env.NOT_THERE_AT_ALL}"}`, "redis: tls: ca: "},
	} {
		var app App
		if err := json.Unmarshal([]byte(`{"redis": {`+c.redis+`}}`), &app); err != nil {
			t.Fatal(err)
		}
		_, err := app.Build(ctx)
		if err == nil || !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s: got %v, want %q", c.redis, err, c.problem)
		}
		if err != nil && strings.Contains(err.Error(), "hunter") {
			t.Errorf("%v repeats a password", err)
		}
	}
}

// A certificate may come later, so that its absence is no error; it is warned of.
func TestRedisCertificatesMayComeLater(t *testing.T) {
	build(t, `{"redis": {"addresses": ["127.0.0.1:1"], "tls": {"ca": "/not/there"}}}`)
	r := newReport()
	app := App{Redis: &Redis{Addresses: []string{"127.0.0.1:1"}, TLS: &RedisTLS{CA: "/not/there"}}}
	app.resolved(r)
	if len(r.warnings) != 1 || r.warnings[0].path != "redis: tls" || !strings.Contains(r.warnings[0].message, "/not/there") {
		t.Errorf("warnings: %+v", r.warnings)
	}
}

// L97: what is wrong with a server is warned of when it is first there, once for all
// configurations that use it.
func TestRedisIsInspectedOnce(t *testing.T) {
	server := redistest.Reserve(t, redistest.Options{Config: []string{"maxmemory-policy allkeys-lru"}})
	config := `{"redis": {"addresses": ["` + server.Addr() + `"], "timeout": "1s"}}`
	core, logs := observer.New(zap.WarnLevel)
	first, second := build(t, config), build(t, config)
	first.logger, second.logger = zap.New(core), zap.New(core)

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { first.inspect(ctx); close(done) }()
	server.Restart()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("the server was not looked at")
	}
	cancel()
	second.inspect(t.Context())
	all := logs.FilterMessage("Redis cannot be reached; it is used as soon as it can").All()
	if len(all) > 1 {
		t.Errorf("its absence was logged %d times", len(all))
	}
	all = logs.All()[len(all):]
	if len(all) != 1 || !strings.Contains(all[0].Message, "maxmemory-policy") ||
		all[0].ContextMap()["server"] != server.Addr() || all[0].ContextMap()["detail"] != "allkeys-lru" {
		t.Errorf("logged %+v", all)
	}
}

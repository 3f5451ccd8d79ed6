package observe

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/weirhq/caddy-weir/blocklist"
)

// A ban is logged with what it was made for, counted, and the key only if keys are logged; of a flood
// the log has one.
func TestLogBan(t *testing.T) {
	reg := registry(t)
	core, logs := observer.New(zap.InfoLevel)
	log := NewLog(zap.New(core))
	zone := NewBans("banned here")
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ban := &blocklist.Ban{
		Scope: blocklist.Scope{Kind: blocklist.ScopeZone, Name: "banned here"}, Key: "hash", Since: since, Until: since.Add(time.Hour), Count: 2,
		Evidence: blocklist.Evidence{Reason: "5 answers of 401 in 1m", Host: "example.com", Path: "/login", UserAgent: "agent\u009b", Status: 401},
	}
	count := func(outcome string) float64 {
		return value(t, reg, "caddy_weir_bans_total", "outcome="+outcome, "zone=banned here")
	}
	made, dry := count("banned"), count("dry_banned")
	log.Ban(Begun{Zone: zone, Ban: ban, Client: "203.0.113.9", Key: "secret"})
	for range 500 {
		log.Ban(Begun{Zone: zone, Ban: ban, Dry: true})
	}
	if got := count("banned") - made; got != 1 {
		t.Errorf("%v bans were counted", got)
	}
	if got := count("dry_banned") - dry; got != 500 {
		t.Errorf("%v dry runs were counted", got)
	}
	if n := logs.Len(); n < 1 || n > 10 {
		t.Errorf("%d lines", n)
	}
	first := logs.All()[0]
	fields := first.ContextMap()
	if first.Message != "client banned" || fields["reason"] != "5 answers of 401 in 1m" || fields["client_ip"] != "203.0.113.9" ||
		fields["length"] != time.Hour || fields["count"] != int64(2) || fields["user_agent"] != "agent\ufffd" || fields["ban"] != "hash" {
		t.Errorf("%q %v", first.Message, fields)
	}
	if _, ok := fields["key"]; ok {
		t.Error("the key is logged")
	}
}

package observe

import (
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/weirhq/caddy-weir/internal/aggregator"
)

// Whoever says to be an aggregator is counted by what came of it, and forgers are logged: one
// address once an hour, and of a flood of addresses a few.
func TestLogAggregator(t *testing.T) {
	reg := registry(t)
	core, logs := observer.New(zap.InfoLevel)
	log, zone := NewLog(zap.New(core)), NewAggregators("read here")
	r := httptest.NewRequest("GET", "/feed.xml?token=x", nil)
	r.RemoteAddr = "203.0.113.9:4711"
	r.Header.Set("User-Agent", "Feedly/1.0\u009b")
	count := func(result string) float64 {
		return value(t, reg, "caddy_weir_aggregator_requests_total", "result="+result, "zone=read here")
	}
	before := map[string]float64{"verified": count("verified"), "unknown": count("unknown"), "forged": count("forged")}
	one := netip.MustParseAddr("203.0.113.9")
	for range 2 {
		log.Aggregator(zone, "feedly", aggregator.Verified, one, r)
		log.Aggregator(zone, "feedly", aggregator.Unknown, one, r)
	}
	if n := logs.Len(); n != 0 {
		t.Errorf("%d lines about those who are not forged", n)
	}
	for range 5 {
		log.Aggregator(zone, "feedly", aggregator.Forged, one, r)
	}
	if n := logs.Len(); n != 1 {
		t.Fatalf("%d lines about one forger, want 1", n)
	}
	first := logs.All()[0]
	if f := first.ContextMap(); first.Message != "aggregator not verified" || f["zone"] != "read here" || f["aggregator"] != "feedly" ||
		f["client_ip"] != "203.0.113.9" || f["path"] != "/feed.xml" || f["user_agent"] != "Feedly/1.0\ufffd" {
		t.Errorf("%q %v", first.Message, f)
	}
	for i := range 900 {
		log.Aggregator(zone, "feedly", aggregator.Forged, netip.AddrFrom4([4]byte{198, 51, byte(i >> 8), byte(i)}), r)
	}
	if n := logs.Len(); n > 20 {
		t.Errorf("%d lines about a flood", n)
	}
	for result, want := range map[string]float64{"verified": 2, "unknown": 2, "forged": 905} {
		if got := count(result) - before[result]; got != want {
			t.Errorf("%v were %s, want %v", got, result, want)
		}
	}
}

// An address passes once an hour, and no more are remembered than there is room for.
func TestHourly(t *testing.T) {
	var h hourly
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	a := netip.MustParseAddr("203.0.113.9")
	for _, step := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {0, false}, {59 * time.Minute, false}, {time.Minute, true}, {time.Minute, false}} {
		now = now.Add(step.after)
		if got := h.first(a, now); got != step.want {
			t.Errorf("at %s: %v", now.Format(time.TimeOnly), got)
		}
	}
	for i := range 5 * mostTold {
		h.first(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), now)
	}
	if n := len(h.told); n > mostTold {
		t.Errorf("%d remembered", n)
	}
}

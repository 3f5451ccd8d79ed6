package observe

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/weirhq/caddy-weir/blocklist"
)

// The end of a ban is counted by its zone and how it ended, and logged with what it was; of a flood the log
// has few.
func TestLogBanEnded(t *testing.T) {
	reg := registry(t)
	core, logs := observer.New(zap.InfoLevel)
	log := NewLog(zap.New(core))
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ban := &blocklist.Ban{
		Zone: "ended here", Origin: "ended here", Scope: blocklist.Scope{Kind: blocklist.ScopeZone, Name: "ended here"}, Key: "hash",
		Since: since, Until: since.Add(time.Hour), Count: 2, Evidence: blocklist.Evidence{Reason: "5 answers of 401 in 1m"},
	}
	log.BanEnded(Ended{Ban: ban})
	first := logs.All()[0]
	fields := first.ContextMap()
	if first.Message != "ban ended" || fields["how"] != "over" || fields["zone"] != "ended here" || fields["ban"] != "hash" ||
		fields["reason"] != "5 answers of 401 in 1m" || fields["count"] != int64(2) || fields["since"] != since || fields["until"] != since.Add(time.Hour) {
		t.Errorf("%q %v", first.Message, fields)
	}
	for range 500 {
		log.BanEnded(Ended{Ban: ban, Lifted: true})
	}
	log.BanEnded(Ended{Ban: &blocklist.Ban{Origin: "ann", Key: "hash", Until: since}, Lifted: true})
	for labels, want := range map[[2]string]float64{
		{"outcome=over", "zone=ended here"}:   1,
		{"outcome=lifted", "zone=ended here"}: 500,
		{"outcome=lifted", "zone=_operator"}:  1,
	} {
		if got := value(t, reg, "caddy_weir_bans_ended_total", labels[0], labels[1]); got != want {
			t.Errorf("%v: %v ends were counted, want %v", labels, got, want)
		}
	}
	if n := logs.Len(); n > 10 {
		t.Errorf("%d lines", n)
	}
}

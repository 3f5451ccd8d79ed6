package config

import (
	"context"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/weirhq/caddy-weir/internal/redistest"
)

// L92: a Redis that is not there is told of at the start, not when the first request wants
// it, and once; so is that it has come.
func TestRedisAwayAtStart(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	server.Kill()
	s := build(t, `{"redis": {"addresses": ["`+server.Addr()+`"], "timeout": "1s"}}`)
	core, logs := observer.New(zap.InfoLevel)
	s.logger = zap.New(core)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		s.inspect(ctx)
		close(ended)
	}()
	said := func() (lines []string) {
		for _, line := range logs.All() {
			lines = append(lines, line.Message)
		}
		return lines
	}
	const away = "Redis cannot be reached; it is used as soon as it can"
	await(t, "a warning", func() bool { return slices.Equal(said(), []string{away}) })
	if why := logs.All()[0].ContextMap()["error"]; !strings.Contains(why.(string), "refused") {
		t.Errorf("error %v, want what refused", why)
	}
	server.Restart()
	await(t, "an all-clear", func() bool { return slices.Equal(said(), []string{away, "Redis can be reached"}) })
	<-ended
	cancel()
}

// A server that answers is not called away, and one that hangs up on plain text may speak TLS.
func TestRedisRefusesAtStart(t *testing.T) {
	for _, c := range []struct {
		name          string
		server        redistest.Options
		message, hint string
	}{
		{"no password", redistest.Options{Password: "sesame"}, refusesLine, ""},
		{"plain text", redistest.Options{TLS: redistest.NewCertificates(t)}, awayLine, hangsUp},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := redistest.Start(t, c.server)
			s := build(t, `{"redis": {"addresses": ["`+server.Addr()+`"], "timeout": "1s"}}`)
			core, logs := observer.New(zap.InfoLevel)
			s.logger = zap.New(core)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				s.inspect(ctx)
				close(ended)
			}()
			await(t, "a warning", func() bool { return logs.Len() > 0 })
			line := logs.All()[0]
			if hint, _ := line.ContextMap()["hint"].(string); line.Message != c.message || hint != c.hint {
				t.Errorf("%s, hint %q; want %s, hint %q", line.Message, hint, c.message, c.hint)
			}
			if c.hint == "" {
				server.Do(`CONFIG SET requirepass ""`)
				await(t, "an all-clear", func() bool { return logs.FilterMessage(servesLine).Len() == 1 })
			}
			cancel()
			<-ended
		})
	}
}

package config

import (
	"encoding/json"
	"strings"
	"testing"
)

// Numbers that nothing can serve are refused instead of overflowing.
func TestAppNumbers(t *testing.T) {
	redis := func(field string) string {
		return `{"redis": {"addresses": ["127.0.0.1:1"], ` + field + `}}`
	}
	for _, c := range []struct{ config, problem string }{
		{`{"max_keys": 1000000000}`, ""},
		{`{"max_keys": 9223372036854775807}`, "max_keys: must be between 1 and 1000000000, got 9223372036854775807"},
		{`{"max_keys": -1}`, "max_keys: must be between 1 and 1000000000, got -1"},
		{redis(`"pool_size": 65536`), ""},
		{redis(`"pool_size": 9223372036854775807`), "redis: pool_size: must be between 1 and 65536, got 9223372036854775807"},
		{redis(`"pool_size": -1`), "redis: pool_size: must be between 1 and 65536, got -1"},
		{redis(`"db": -1`), "redis: db: must not be negative, got -1"},
	} {
		var app App
		if err := json.Unmarshal([]byte(c.config), &app); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := app.Validate(); err != nil {
			got = err.Error()
		}
		if strings.TrimSpace(got) != c.problem {
			t.Errorf("%s: got %q, want %q", c.config, got, c.problem)
		}
	}
}

package config

import (
	"encoding/json"
	"testing"
	"time"
)

func TestTarpitBounds(t *testing.T) {
	for text, want := range map[string]struct {
		most int
		each time.Duration
		err  string
	}{
		`{}`:                                   {most: 128, each: 10 * time.Second},
		`{"tarpit": {}}`:                       {most: 128, each: 10 * time.Second},
		`{"tarpit": {"max": 1}}`:               {most: 1, each: 10 * time.Second},
		`{"tarpit": {"time": "1m"}}`:           {most: 128, each: time.Minute},
		`{"tarpit": {"max": -1}}`:              {err: "tarpit: max: must be between 1 and 10000, got -1"},
		`{"tarpit": {"max": 10001}}`:           {err: "tarpit: max: must be between 1 and 10000, got 10001"},
		`{"tarpit": {"time": "999ms"}}`:        {err: "tarpit: time: must be between 1s and 10m0s, got 999ms"},
		`{"tarpit": {"time": "-1s"}}`:          {err: "tarpit: time: must be between 1s and 10m0s, got -1s"},
		`{"tarpit": {"max": 5, "time": "1h"}}`: {err: "tarpit: time: must be between 1s and 10m0s, got 1h0m0s"},
	} {
		var app App
		if err := json.Unmarshal([]byte(text), &app); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := app.Validate(); err != nil {
			got = err.Error()
		}
		if got != want.err {
			t.Errorf("%s: got %q, want %q", text, got, want.err)
		}
		if most, each := app.TarpitBounds(); want.err == "" && (most != want.most || each != want.each) {
			t.Errorf("%s: got %d and %s", text, most, each)
		}
	}
}

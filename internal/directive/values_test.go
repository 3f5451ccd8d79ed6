package directive

import (
	"testing"
	"time"
)

func TestRate(t *testing.T) {
	for _, c := range []struct {
		text   string
		events int64
		window time.Duration
	}{
		{"10/s", 10, time.Second},
		{"100/1m", 100, time.Minute},
		{"60/h", 60, time.Hour},
		{"1000/1d", 1000, 24 * time.Hour},
		{"1/1h30m", 1, 90 * time.Minute},
		{"3/2.5s", 3, 2500 * time.Millisecond},
		{"10/.5s", 10, 500 * time.Millisecond},
		{"5/ms", 5, time.Millisecond},
		{"9/µs", 9, time.Microsecond},
		{"1000000000/s", 1_000_000_000, time.Second},
	} {
		events, window, err := Rate(c.text)
		if err != nil || events != c.events || time.Duration(window) != c.window {
			t.Errorf("%s: got %d in %s, %v; want %d in %s", c.text, events, time.Duration(window), err, c.events, c.window)
		}
	}
}

func TestRateErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":        `must be a rate such as 10/s, 100/1m or 1000/1d, in ms, s, m, h or d, got ""`,
		"10":      `must be a rate such as 10/s, 100/1m or 1000/1d, in ms, s, m, h or d, got "10"`,
		"10/":     `must be a rate such as 10/s, 100/1m or 1000/1d, in ms, s, m, h or d, got "10/"`,
		"/s":      `rate "/s": events: must be a whole number, got ""`,
		"x/s":     `rate "x/s": events: must be a whole number, got "x"`,
		"1.5/s":   `rate "1.5/s": events: must be a whole number, got "1.5"`,
		"0/s":     `rate "0/s": events: must be at least 1, got 0`,
		"-1/s":    `rate "-1/s": events: must be at least 1, got -1`,
		"10/0s":   `rate "10/0s": window: must be positive, got 0s`,
		"10/-5s":  `rate "10/-5s": window: must be positive, got -5s`,
		"10/60":   `must be a rate such as 10/s, 100/1m or 1000/1d, in ms, s, m, h or d, got "10/60"`,
		"10/s/s":  `must be a rate such as 10/s, 100/1m or 1000/1d, in ms, s, m, h or d, got "10/s/s"`,
		"10/week": `must be a rate such as 10/s, 100/1m or 1000/1d, in ms, s, m, h or d, got "10/week"`,
	} {
		if _, _, err := Rate(text); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"zone", "window", "burst", "db", "on_store_error"}
	for word, want := range map[string]string{
		"zome":           "zone",
		"znoe":           "zone",
		"zones":          "zone",
		"windwo":         "window",
		"widow":          "window",
		"bursts":         "burst",
		"on_store_eror":  "on_store_error",
		"onstoreerror":   "on_store_error",
		"bd":             "db",
		"d":              "db",
		"limit":          "",
		"":               "",
		"zo":             "",
		"windowwindow":   "",
		"ünmöglich":      "",
		"sliding_window": "",
	} {
		if got := nearest(word, words); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}

func TestSlips(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"abc", "abc", 0},
		{"", "abc", 3},
		{"abc", "", 3},
		{"abc", "acb", 1},
		{"abc", "ab", 1},
		{"abc", "abcd", 1},
		{"abc", "axc", 1},
		{"kitten", "sitting", 3},
		{"ca", "abc", 3},
	} {
		if got := slips(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"65536": 65536, "1B": 1, "500kB": 500_000, "32MiB": 32 << 20, "2GB": 2_000_000_000, "1GiB": 1 << 30,
		"": 0, "0": 0, "-1": 0, "MiB": 0, "1.5MB": 0, "5XB": 0, "5 MB": 0, "9007199254740993": 0, "99999999999GiB": 0,
	} {
		var got int64
		if err := Bytes(text, &got); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

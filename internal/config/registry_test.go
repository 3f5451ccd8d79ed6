package config

import (
	"strings"
	"testing"
)

// L65 and B43: zones of one name are one zone only where nobody can be surprised.
func TestRegistry(t *testing.T) {
	const plain = `"key": "x", "max_events": 10, "window": "1m"`
	for _, test := range []struct {
		name          string
		first, second string // fields of the zone in two handlers
		problem       string // part of it, "" if there is none
		warning       string
	}{
		{"equal", plain, plain, "", ""},
		{"equal in other words", plain + `, "ipv4_prefix": 24`, `"key": ["x"], "limits": [{"events": 10, "window": "60s"}],
			"on_empty_key": "client_ip", "cost": 1, "ipv4_prefix": 24, "ipv6_prefix": 64`, "", ""},
		{
			"mholt's differ", plain, `"key": "x", "max_events": 20, "window": "1m"`, "",
			`zone "api": limits: differs from that of the zone of the same name; both spend one budget`,
		},
		{
			"mholt's differ in a prefix", plain + `, "ipv4_prefix": 24`, plain + `, "ipv4_prefix": 16`, "",
			`zone "api": ipv4_prefix: differs from that of the zone of the same name; both spend one budget`,
		},
		{
			"limits", plain + `, "cost": 2`, `"key": "x", "max_events": 20, "window": "1m", "cost": 2`,
			`zone "api": limits: ["10/1m sliding_window"] in handler 1, but ` +
				`["20/1m sliding_window"] in handler 2: zones of one name are one zone and must be defined alike`, "",
		},
		{
			"key", plain + `, "dry_run": true`, `"key": "y", "max_events": 10, "window": "1m", "dry_run": true`,
			`zone "api": key: "x" in handler 1, but "y" in handler 2`, "",
		},
		{"one field only", plain, plain + `, "dry_run": true`, `zone "api": dry_run: absent in handler 1, but true in handler 2`, ""},
		{
			"matchers", plain + `, "dry_run": true, "match": [{"path": ["/a"]}]`, plain + `, "dry_run": true, "match": [{"path": ["/b"]}]`,
			`zone "api": match: [{"path":["/a"]}] in handler 1, but [{"path":["/b"]}] in handler 2`, "",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			g, r := make(registry), newReport()
			app := new(App).resolved(newReport())
			for i, fields := range []string{test.first, test.second} {
				h := rateLimit(t, `{"rate_limits": {"api": {`+fields+`}}}`)
				g.add(r.in("zone %q", "api"), "api", []string{"handler 1", "handler 2"}[i], h.Zones["api"], &app)
			}
			problem, warning := "", ""
			if err := r.err(); err != nil {
				problem = err.Error()
			}
			if len(r.warnings) > 0 {
				warning = r.warnings[0].path + ": " + r.warnings[0].message
			}
			if !strings.HasPrefix(problem, test.problem) || (test.problem == "") != (problem == "") {
				t.Errorf("problem %q, want %q", problem, test.problem)
			}
			if warning != test.warning {
				t.Errorf("warning %q, want %q", warning, test.warning)
			}
		})
	}
}

package config

import (
	"strings"
	"testing"
	"time"
)

func TestBanValidate(t *testing.T) {
	const address = "{http.vars.client_ip}"
	zone := func(key, fields string) string {
		return `{"rate_limits": {"login": {"key": "` + key + `", "ban": {` + fields + `}}}}`
	}
	for _, test := range []struct {
		name, config string
		problems     []string // one a line of the error; none if it is valid
	}{
		{"least", zone(address, `"events": 5, "window": "1m", "count": ["401"]`), nil},
		{"most", zone(address, `"events": 5, "window": "1m", "count": ["4xx", "503"], "for": "1h", "grow": 1.5, "max": "7d", "quiet": "12h",
			"spread": 0, "scope": "site", "rollup": {"neighbours": 4, "ipv4": [24], "ipv6": [56, 48]},
			"people": {"user": "{http.reverse_proxy.header.X-User}", "per_user": 3, "max": 9, "overrides": [{"range": "192.0.2.0/24", "factor": 40, "note": "library", "expires": "30d"}]},
			"private_ranges": true, "dry_run": true`), nil},
		{"by user", zone("{http.auth.user.id}", `"events": 5, "window": "1m", "count": ["403"], "rolling": "1d"`), nil},
		{"of a feed", `{"rate_limits": {"login": {"feed": {}, "ban": {"events": 5, "window": "1m", "scope": "site"}}}}`, nil},
		{"nothing", zone(address, ``), []string{
			`after: is missing, say how often within which time (in JSON events and window)`,
			`count: refusals: the zone has no limit that could refuse; write what else counts, such as count 401 403`,
		}},
		{"no window", zone(address, `"events": 5, "count": ["401"]`), []string{`after: window: is missing`}},
		{"no events", zone(address, `"window": "1m", "count": ["401"]`), []string{`after: events: must be at least 1, got 0`}},
		{"everybody", zone("x", `"events": 5, "window": "1m", "count": ["401"]`), []string{`needs a key that tells clients apart: this one would ban everybody at once`}},
		{"no status", zone(address, `"events": 5, "window": "1m", "count": ["1xx"]`), []string{`count: must be requests, refusals, a status from 200 to 599, or a class of them such as 4xx, got "1xx"`}},
		{"requests and more", zone(address, `"events": 5, "window": "1m", "count": ["requests", "401"]`), []string{`count: requests holds all the rest, got requests 401`}},
		// L125: no ban lasts a negative time, or for ever.
		{"numbers", zone(address, `"events": 5, "window": "1m", "count": ["401"], "for": "-1m", "grow": 0.5, "max": "10000d", "quiet": "1ms", "spread": 2, "status": 200, "scope": "world"`), []string{
			`for: must be between 1s and 366d, got -1m0s`,
			`max: must be between 1s and 366d, got 240000h0m0s`,
			`quiet: must be between 1s and 366d, got 1ms`,
			`grow: must be between 1 and 100, got 0.5`,
			`spread: must be between 0 and 1, got 2`,
			`scope: must be zone, site or all, got "world"`,
			`status: must be between 400 and 599, got 200`,
			`status: is that of a refusal in the zone; world is refused by block`,
		}},
		{"a ceiling that is too low", zone(address, `"events": 5, "window": "1m", "count": ["401"], "for": "1h", "rolling": "30m"`), []string{`rolling: must be between 1h and 366d, got 30m0s`}},
		{"rolling for all", zone(address, `"events": 5, "window": "1m", "count": ["401"], "rolling": "1d", "scope": "all"`), []string{`rolling: is for bans of the zone: all is refused by block, which counts no attempts`}},
		{"no address", zone("{http.auth.user.id}", `"events": 5, "window": "1m", "count": ["401"], "scope": "site", "rollup": {"neighbours": 2}, "people": {}`), []string{
			`scope: site needs a key that is the client's address alone, as {http.vars.client_ip}`,
			`rollup: needs a key that is the client's address alone, as {http.vars.client_ip}`,
			`people: needs a key that is the client's address alone, as {http.vars.client_ip}`,
		}},
		{"roll-up", zone(address, `"events": 5, "window": "1m", "count": ["401"], "rollup": {"neighbours": 1, "ipv4": [32], "ipv6": [48, 56]}`), []string{
			`rollup: neighbours: must be between 2 and 1000, got 1`,
			`rollup: ipv4: must be wider than /32, and not wider than /8, got /32`,
			`rollup: ipv6: must be wider than /48, and not wider than /19, got /56`,
		}},
		{"people", zone(address, `"events": 5, "window": "1m", "count": ["401"], "people": {"user": "ada", "per_user": -1, "max": 5000, "overrides": [{"range": "nowhere", "factor": 2}]}`), []string{
			`people: user: must hold a placeholder, got "ada"`,
			`people: per_user: must be between 0.01 and 1000, got -1`,
			`people: max: must be between 1 and 1000, got 5000`,
			`people: overrides[0]: range: "nowhere": must be an address or a CIDR range`,
		}},
		{"too many events", zone(address, `"events": 2000000, "window": "1m", "count": ["401"], "people": {"max": 1000}`), []string{`people: raises the events of after above 1000000000`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			if err := rateLimit(t, test.config).Validate(); err != nil {
				got = strings.Split(err.Error(), "\n")
			}
			var want []string
			for _, p := range test.problems {
				want = append(want, `zone "login": ban: `+p)
			}
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// Zones of one name are one zone, and so their bans have to agree; what is left out means its default.
func TestBanDefinition(t *testing.T) {
	zone := func(text string) *Zone {
		return rateLimit(t, `{"rate_limits": {"login": {"key": "{http.vars.client_ip}", "ban": {"events": 5, "window": "1m", "count": ["401"]`+text+`}}}}`).Zones["login"]
	}
	if field, _ := zone(``).Differs(zone(`, "for": "10m", "grow": 1, "spread": 0.1, "scope": "zone"`)); field != "" {
		t.Errorf("defaults differ in %s", field)
	}
	if field, plain := zone(``).Differs(zone(`, "for": "20m"`)); field != "ban" || plain {
		t.Errorf("another length differs in %q, and is plain: %v", field, plain)
	}
}

// S0.10, L131: an office of which several sign in may fail more often than one client; an
// attacker's guesses make no crowd.
func TestBanPeople(t *testing.T) {
	clock := newTestClock()
	n := banning(t, new(memoryList), clock.read, login(`, "people": {"user": "{http.request.header.X-User}", "per_user": 2, "max": 4,
		"overrides": [{"range": "203.0.113.64/26", "factor": 10, "note": "the library", "expires": "1h"}]}`))
	fails := func(client string) int {
		t.Helper()
		for i := range 100 {
			if n.send(from(client, "/login", "User-Agent", "guess"), 401) == 429 {
				return i
			}
		}
		return 100
	}
	for i := range 9 {
		client := from("203.0.113.1", "/", "X-User", []string{"ada", "bob"}[i%2])
		n.send(client, 200)
		n.send(from("203.0.113.2", "/", "User-Agent", []string{"one", "two", "three"}[i%3]), 200)
		n.send(from("203.0.113.3", "/", "User-Agent", "made up "+string(rune('a'+i))), 200)
		n.send(from("203.0.113.4", "/", "User-Agent", "made up "+string(rune('a'+i))), 404)
	}
	for client, want := range map[string]int{
		"203.0.113.1":  12, // two users are four people
		"203.0.113.2":  9,  // three browsers
		"203.0.113.3":  12, // no more than the highest factor
		"203.0.113.4":  3,  // found nothing, and was nobody
		"203.0.113.65": 30, // by an operator's word
		"203.0.113.9":  3,
	} {
		if got := fails(client); got != want {
			t.Errorf("%s failed %d times before it was banned, want %d", client, got, want)
		}
	}
	n.sends("203.0.113.70", 401, 401)
	clock.move(time.Hour)
	if got := fails("203.0.113.66"); got != 3 {
		t.Errorf("after an override has ended: %d", got)
	}
}

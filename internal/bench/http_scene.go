package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// complete adds to a scene's name what it is under.
func (s *httpScene) complete() {
	part := "http/"
	if s.more {
		part = "http-more/"
	}
	s.name = part + s.name + "/" + word(count(s.keys, "key"))
	if s.close {
		s.name += "/no_keep-alive"
	}
	if !s.metrics {
		s.name += "/no_metrics"
	}
}

func httpNames(more bool) func() []string {
	return func() []string {
		var all []string
		for _, s := range httpScenes(many) {
			if s.more == more {
				all = append(all, s.name)
			}
		}
		return all
	}
}

// limit returns a rate_limit directive with one zone, whose limit is so wide that nobody
// reaches it, or so tight that everybody has.
func limit(rate string, options ...string) string {
	return "rate_limit {\n\t\tzone all {\n\t\t\tkey {client_ip}\n\t\t\tlimit " + rate + "\n\t\t}\n\t\t" +
		strings.Join(options, "\n\t\t") + "\n\t}\n\t"
}

// file returns the name of a scene's side as part of a file's.
func (s *httpScene) file(i int) string {
	return fmt.Sprintf("%s-%d", strings.ReplaceAll(s.name, "/", "-"), i)
}

// config returns a Caddyfile with one site.
func (s *httpScene) config(i int) string {
	var global strings.Builder
	if s.metrics {
		global.WriteString("\tmetrics\n")
	}
	if s.sides[i].redis {
		// A prefix of its own, so that no side finds what another one counted.
		fmt.Fprintf(&global, "\tweir {\n\t\tredis {$REDIS} {\n\t\t\tprefix %s:\n\t\t}\n\t}\n", s.file(i))
	}
	return formatted("{\n\tadmin {$ADMIN}\n\tpersist_config off\n\tauto_https off\n" + global.String() +
		"\tservers {\n\t\ttrusted_proxies static 127.0.0.0/8\n\t\ttrusted_proxies_strict\n\t}\n}\n" +
		"http://127.0.0.1:{$PORT} {\n\t" + s.sides[i].handlers + "\n}\n")
}

// formatted puts a Caddyfile into Caddy's form: it warns of any other.
func formatted(text string) string { return string(caddyfile.Format([]byte(text))) }

// script returns what makes wrk's two threads speak for many clients, one after the other,
// beginning where the argument says; "" for one client.
func (s *httpScene) script() string {
	if s.keys == 1 {
		return ""
	}
	return strings.ReplaceAll(`
local threads = 0
function setup(thread)
	thread:set("id", threads)
	threads = threads + 1
end
function init(args)
	n, requests = math.floor(id * KEYS / 2) + tonumber(args[1]), {}
end
function request()
	n = (n + 1) % KEYS -- all of them
	local text = requests[n]
	if not text then
		wrk.headers["X-Forwarded-For"] = "10." .. math.floor(n / 65536) .. "." .. math.floor(n / 256) % 256 .. "." .. n % 256
		text = wrk.format()
		requests[n] = text
	end
	return text
end
`, "KEYS", fmt.Sprint(s.keys))
}

// writeSite makes a small page in dir.
func writeSite(dir string) error {
	page := "<!doctype html><title>Weir</title>" + strings.Repeat("<p>A river, at a measured rate.</p>\n", 28)
	return os.WriteFile(filepath.Join(dir, "index.html"), []byte(page), 0o644)
}

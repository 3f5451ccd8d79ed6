package main

import (
	"os"
	"path/filepath"
	"strings"
)

// A scene is two configurations and the load under which they are compared.
type scene struct {
	name string
	// without and with are the handlers of the site, but for the module's part the same.
	without, with string
	// keys is how many clients take turns. More than one are told apart by what the load
	// puts into X-Forwarded-For.
	keys int
	// metrics turns Caddy's own metrics on, on both sides. The module's always are.
	metrics bool
	// refused scenes are those in which every answer has an error status.
	refused bool
	// goal is the ratio that is not to be exceeded.
	goal float64
}

const (
	file    = "root {$SITE}\n\tfile_server"
	respond = "respond \"hello\""
	refuse  = "respond \"Too Many Requests. Try again in 3600 s.\" 429"
)

// limit returns a rate_limit directive with one zone, whose limit is so wide that nobody
// reaches it, or so tight that everybody has.
func limit(rate string, options ...string) string {
	return "rate_limit {\n\t\tzone all {\n\t\t\tkey {client_ip}\n\t\t\tlimit " + rate + "\n\t\t}\n\t\t" +
		strings.Join(options, "\n\t\t") + "\n\t}\n\t"
}

// fields sets what rate_limit sets, but always the same, by Caddy's own header directive.
const fields = `header {
		X-RateLimit-Limit 1000000000
		X-RateLimit-Remaining 999999999
		X-RateLimit-Reset 3600
		RateLimit-Policy "\"all\";q=1000000000;w=3600"
		RateLimit "\"all\";r=999999999;t=3600"
	}
	`

const (
	wide  = "1000000000/1h"
	tight = "1/365d"
)

const many = 100_000

func scenes() []scene {
	var all []scene
	for _, site := range []struct{ name, handler string }{{"file", file}, {"respond", respond}} {
		for _, keys := range []int{1, many} {
			for _, metrics := range []bool{false, true} {
				all = append(all, scene{
					name:    name("allowed", site.name, keys, metrics),
					without: site.handler, with: limit(wide) + site.handler,
					keys: keys, metrics: metrics, goal: 1.05,
				})
			}
		}
	}
	// Where the difference comes from: without the five header fields; and beside a Caddy that
	// sends five such fields as well.
	all = append(all,
		scene{
			name:    name("allowed", "file", 1, false) + "/headers_off",
			without: file, with: limit(wide, "headers off") + file, keys: 1, goal: 1.05,
		},
		scene{
			name:    name("allowed", "file", 1, false) + "/beside_header",
			without: fields + file, with: limit(wide) + file, keys: 1, goal: 1.05,
		},
	)
	for _, keys := range []int{1, many} {
		for _, metrics := range []bool{false, true} {
			all = append(all, scene{
				name:    name("refused", "429", keys, metrics),
				without: refuse, with: limit(tight) + respond,
				keys: keys, metrics: metrics, refused: true, goal: 1.3,
			})
		}
	}
	return all
}

func name(fate, site string, keys int, metrics bool) string {
	n := fate + "/" + site + "/1key"
	if keys > 1 {
		n = fate + "/" + site + "/100k_keys"
	}
	if metrics {
		n += "/metrics"
	}
	return n
}

// file returns the scene's name as part of a file's.
func (s scene) file() string { return strings.ReplaceAll(s.name, "/", "-") }

// config returns a Caddyfile with one site.
func (s scene) config(handlers string) string {
	metrics := ""
	if s.metrics {
		metrics = "\tmetrics\n"
	}
	return "{\n\tadmin {$ADMIN}\n\tpersist_config off\n\tauto_https off\n" + metrics +
		"\tservers {\n\t\ttrusted_proxies static 127.0.0.0/8\n\t\ttrusted_proxies_strict\n\t}\n}\n" +
		"http://127.0.0.1:{$PORT} {\n\t" + handlers + "\n}\n"
}

// script returns what makes wrk's two threads speak for many clients, one after the other,
// beginning where the argument says; "" for one client.
func (s scene) script() string {
	if s.keys == 1 {
		return ""
	}
	return `
local threads = 0
function setup(thread)
	thread:set("id", threads)
	threads = threads + 1
end
function init(args)
	n, requests = id * 50000 + tonumber(args[1]), {}
end
function request()
	n = (n + 1) % 100000 -- all of them
	local text = requests[n]
	if not text then
		wrk.headers["X-Forwarded-For"] = "10." .. math.floor(n / 65536) .. "." .. math.floor(n / 256) % 256 .. "." .. n % 256
		text = wrk.format()
		requests[n] = text
	end
	return text
end
`
}

// writeSite makes a small page in dir.
func writeSite(dir string) error {
	page := "<!doctype html><title>Weir</title>" + strings.Repeat("<p>A river, at a measured rate.</p>\n", 28)
	return os.WriteFile(filepath.Join(dir, "index.html"), []byte(page), 0o644)
}

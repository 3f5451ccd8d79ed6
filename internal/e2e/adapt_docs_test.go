package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// blocks are the blocks of the Caddyfile, with how to write a line into each.
var blocks = []struct{ name, open, close string }{
	{"weir", "{\nweir {\n", "}\n}\n:80\n"},
	{"redis", "{\nweir {\nredis localhost:6379 {\n", "}\n}\n}\n:80\n"},
	{"tls", "{\nweir {\nredis localhost:6379 {\ntls {\n", "}\n}\n}\n}\n:80\n"},
	{"rate_limit", ":80 {\nrate_limit {\n", "}\n}\n"},
	{"zone", ":80 {\nrate_limit {\nzone api {\n", "}\n}\n}\n"},
	{"feed", ":80 {\nrate_limit {\nzone api {\nfeed {\n", "}\n}\n}\n}\n"},
	{"aggregators", ":80 {\nrate_limit {\nzone api {\nfeed {\naggregators {\n", "}\n}\n}\n}\n}\n"},
	{"aggregator", ":80 {\nrate_limit {\nzone api {\nfeed {\naggregators {\naggregator x {\n", "}\n}\n}\n}\n}\n}\n"},
	{"previews", ":80 {\nrate_limit {\nzone api {\npreviews {\n", "}\n}\n}\n}\n"},
	{"settle", ":80 {\nrate_limit {\nzone api {\nsettle {\n", "}\n}\n}\n}\n"},
	{"ban", ":80 {\nrate_limit {\nzone api {\nban {\n", "}\n}\n}\n}\n"},
	{"people", ":80 {\nrate_limit {\nzone api {\nban {\npeople {\n", "}\n}\n}\n}\n}\n"},
	{"distributed", ":80 {\nrate_limit {\ndistributed {\n", "}\n}\n}\n"},
	{"weir block", "{\nweir {\nblock {\n", "}\n}\n}\n:80\n"},
	{"url", "{\nweir {\nblock {\nurl http://x/ {\n", "}\n}\n}\n}\n:80\n"},
	{"ip_source", "{\nweir {\nblock {\nip_source x {\n", "}\n}\n}\n}\n:80\n"},
	{"trusted_proxies weir", "{\nservers {\ntrusted_proxies weir http://x/ {\n", "}\n}\n}\n:80\n"},
	{"block", ":80 {\nblock {\n", "}\n}\n"},
	{"rule", ":80 {\nblock {\nrule scan {\n", "}\n}\n}\n"},
	{"weir_check", ":80 {\nweir_check {\n", "}\n}\n"},
}

var (
	knownWords = regexp.MustCompile(`\(known here: (.*?)\)`)
	listItem   = regexp.MustCompile("(?m)^- `(\\w+)")
	insideSite = regexp.MustCompile(`\A(?:#.*\n|\s)*(?:@|rate_limit|block|weir_check)`)
	rightUsage = regexp.MustCompile(`write ("(?:[^"\\]|\\.)*")`)
)

// TestConfigDoc holds that docs/config.md shows every word of every block and no more,
// with what may follow it, as the parser's own error messages tell them.
func TestConfigDoc(t *testing.T) {
	data, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		t.Run(b.name, func(t *testing.T) {
			section := sectionOf(string(data), b.name)
			if section == "" {
				t.Fatalf("docs/config.md has no heading with `%s`", b.name)
			}
			_, err := adapt(b.open + "?\n" + b.close)
			found := knownWords.FindStringSubmatch(fmt.Sprint(err))
			if found == nil {
				t.Fatalf("no list of words in %v", err)
			}
			words := strings.Split(found[1], ", ")
			for _, item := range listItem.FindAllStringSubmatch(section, -1) {
				if item[1] != b.name && !slices.Contains(words, item[1]) {
					t.Errorf("the section of %s tells of %q, which the parser does not know", b.name, item[1])
				}
			}
			for _, word := range words {
				if !regexp.MustCompile("`" + word + "[` ]").MatchString(section) {
					t.Errorf("no `%s` in the section of %s", word, b.name)
				}
				for _, arguments := range []string{"", " 1 1 1 1 1 1 1 1 1"} {
					_, err := adapt(b.open + word + arguments + "\n" + b.close)
					quoted := rightUsage.FindStringSubmatch(fmt.Sprint(err))
					if quoted == nil {
						continue
					}
					usage, err := strconv.Unquote(quoted[1])
					if err != nil {
						t.Fatal(err)
					}
					if !strings.Contains(section, "`"+usage+"`") {
						t.Errorf("no `%s` in the section of %s", usage, b.name)
					}
				}
			}
		})
	}
}

// sectionOf returns what stands between the heading that names a block and the next
// heading that names one.
func sectionOf(page, name string) string {
	var section strings.Builder
	inside := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "#") {
			if i := slices.IndexFunc(blocks, func(b struct{ name, open, close string }) bool {
				return strings.Contains(line, "`"+b.name+"`")
			}); i >= 0 {
				inside = blocks[i].name == name
			}
		}
		if inside {
			section.WriteString(line)
		}
	}
	return section.String()
}

// TestDocs loads the fenced configurations of the README and the docs, as far as
// `caddy validate` does. A Caddyfile that begins with a directive or a matcher stands
// for the inside of a site, a JSON object with a handler for that handler.
func TestDocs(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no docs: %v", err)
	}
	fence := regexp.MustCompile("(?ms)^```(caddyfile|json)\n(.*?)^```$")
	for _, page := range append(pages, "../../README.md") {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Error(err)
			continue
		}
		for i, found := range fence.FindAllSubmatch(data, -1) {
			t.Run(fmt.Sprintf("%s/%d", filepath.Base(page), i+1), func(t *testing.T) {
				config := string(found[2])
				if string(found[1]) == "caddyfile" {
					if insideSite.MatchString(config) {
						config = ":80 {\n" + config + "}\n"
					}
					if config, err = adapt(config); err != nil {
						t.Fatalf("%v in\n%s", err, found[2])
					}
				} else if strings.Contains(config, `"handler"`) && !strings.Contains(config, `"apps"`) {
					config = `{"apps": {"http": {"servers": {"site": {"routes": [{"handle": [` + config + `]}]}}}}}`
				}
				if err := validate(t, config); err != nil {
					t.Errorf("%v in\n%s", err, found[2])
				}
			})
		}
	}
}

// TestOtherModulesJSON loads a configuration as it was written for mholt/caddy-ratelimit.
func TestOtherModulesJSON(t *testing.T) {
	if err := validate(t, `{"apps": {"http": {"servers": {"demo": {"listen": [":80"], "routes": [{"handle": [
		{
			"handler": "rate_limit",
			"rate_limits": {
				"all": {"match": [{"method": ["GET"]}], "key": "static", "window": "1m", "max_events": 100},
				"each": {"key": "{http.request.remote.host}", "window": "5s", "max_events": 2, "ipv4_prefix": 24, "ipv6_prefix": 48},
				"none": {"key": "", "window": 1000000000, "max_events": 1}
			},
			"distributed": {"write_interval": "5s", "read_interval": "5s", "purge_age": "10m"},
			"storage": {"module": "file_system", "root": "limits"},
			"jitter": 0.2,
			"sweep_interval": "1m",
			"log_key": true,
			"disable_metrics": true
		},
		{"handler": "static_response", "body": "ok"}
	]}]}}}}}`); err != nil {
		t.Error(err)
	}
}

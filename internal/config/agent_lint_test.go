package config

import (
	"strings"
	"testing"
)

// B28: names that are no names of crawlers are warned about, each kind once.
func TestLintAgents(t *testing.T) {
	b := blockFrom(t, `{"rules": [
		{"name": "fine", "agent": ["GPTBot", "ISS Crawler", "Claude-Web", "YaK", "日本のロボット"]},
		{"name": "list", "agent": ["CCBot", "Code", "GitHub", "Spider", "AI", "x"]},
		{"name": "browsers", "agent": ["Safari", "Chrome"]}
	]}`)
	r := newReport()
	b.lint(r)
	if err := b.Validate(); err != nil {
		t.Error(err)
	}
	var got []string
	for _, w := range r.warnings {
		got = append(got, w.path+": "+w.message)
	}
	want := []string{
		`rule "list": agent: "Code": is a common word: it also stands in the user agents of feed readers, link previews and tools`,
		`rule "list": agent: "AI": is so short that it stands in many user agents`,
		`rule "browsers": agent: "Safari": stands in the user agents of browsers`,
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

package arch

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// TestTroubleshooting wants what docs/troubleshooting.md quotes to be said by the code: log
// messages, which stand there in quotes, what is wrong with Redis, and metrics; of messages at
// load, which are put together, that some test wants them. An ellipsis stands for what differs.
func TestTroubleshooting(t *testing.T) {
	text := string(read(t, "docs/troubleshooting.md"))
	var code, tests bytes.Buffer
	for _, s := range sources(t) {
		if s.test() {
			tests.Write(s.text)
		} else {
			code.Write(s.text)
		}
	}
	said := func(by []byte, message string) {
		t.Helper()
		for part := range strings.SplitSeq(message, "…") {
			if !bytes.Contains(by, []byte(part)) {
				t.Errorf("nothing says %q", part)
			}
		}
	}
	quoted := regexp.MustCompile("`\"([^`\"]+)\"`|`((?:its?|no sentinel|no node|tls: c|the secret) ?[^`]+)`").FindAllStringSubmatch(text, -1)
	if len(quoted) < 30 {
		t.Fatalf("only %d messages are quoted", len(quoted))
	}
	for _, m := range quoted {
		said(code.Bytes(), m[1]+m[2])
	}
	_, load, _ := strings.Cut(text, "\n## It does not load\n")
	load, _, _ = strings.Cut(load, "\n## ")
	messages := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(load, -1)
	if len(messages) < 5 {
		t.Fatalf("only %d messages at load", len(messages))
	}
	for _, m := range messages {
		said(tests.Bytes(), m[1])
	}
	metrics := read(t, "internal/observe/testdata/metrics.txt")
	for _, name := range regexp.MustCompile(`caddy_weir_\w+`).FindAllString(text, -1) {
		if !bytes.Contains(metrics, []byte(name+" ")) {
			t.Errorf("no metric is called %s", name)
		}
	}
}

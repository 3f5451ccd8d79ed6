package redisstore

import (
	"strings"
	"testing"

	"github.com/weirhq/caddy-weir/limiter"
)

func TestNames(t *testing.T) {
	h := limiter.NewHasher([]byte("secret"))
	l := &limiter.Limit{Zone: "api", Algorithm: limiter.SlidingWindow}
	for _, c := range []struct {
		zone  string
		clear bool
		key   string
		want  string
	}{
		{"api", false, "k", "p:api:w0:{" + h.String("k") + "}"},
		{"api", false, "", "p:api:w0:{" + h.String("") + "}"},
		{"api", true, "203.0.113.7", "p:api:w0:{203.0.113.7}"},
		// L80, B34: nothing a client sends breaks out of the name, or makes it long.
		{"api", true, "a}b{c\x00d\ne%f\xff*", "p:api:w0:{a%7Db%7Bc%00d%0Ae%25f%FF%2A}"},
		{"api", true, strings.Repeat("x", 1<<20), "p:api:w0:{%-" + h.String(strings.Repeat("x", 1<<20)) + "}"},
		{"api", true, strings.Repeat("\x00", 90), "p:api:w0:{%-" + h.String(strings.Repeat("\x00", 90)) + "}"},
		// An empty tag would not be one.
		{"api", true, "", "p:api:w0:{%-" + h.String("") + "}"},
		{"@feed {x} 10/s", false, "k", "p:@feed%20%7Bx%7D%2010/s:w0:{" + h.String("k") + "}"},
	} {
		limit := *l
		limit.Zone = c.zone
		n := names{prefix: "p:", clear: c.clear}
		if got := n.build(h, 0, &limit, c.key); got != c.want {
			t.Errorf("%q: got %q, want %q", c.key, got, c.want)
		}
	}
}

// The name of a state tells every part of what makes it one.
func TestNamesDiffer(t *testing.T) {
	h := limiter.NewHasher([]byte("secret"))
	n := names{prefix: "p:"}
	seen := map[string]string{}
	for kind := range kinds {
		for _, zone := range []string{"a", "a:w0", "a:w0:{x}", "A"} {
			for index := range 3 {
				for _, key := range []string{"k", "l"} {
					l := &limiter.Limit{Zone: zone, Algorithm: kinds[kind].name, Index: index}
					name := n.build(h, kind, l, key)
					what := strings.Join([]string{kinds[kind].name, zone, string(rune('0' + index)), key}, " ")
					if other, ok := seen[name]; ok {
						t.Errorf("%s and %s are both called %q", what, other, name)
					}
					seen[name] = what
				}
			}
		}
	}
}

func TestEveryAlgorithmHasAKind(t *testing.T) {
	for i, k := range kinds {
		if got, err := kindOf(k.name); err != nil || got != i {
			t.Errorf("%s: got %d, %v", k.name, got, err)
		}
	}
	if _, err := kindOf("leaky_bucket"); err == nil {
		t.Error("a way of counting that does not exist is known")
	}
}

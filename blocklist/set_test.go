package blocklist

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// newSet makes a set of rules in their text form.
func newSet(t testing.TB, lines ...string) *Set {
	t.Helper()
	rules := make([]Rule, len(lines))
	for i, line := range lines {
		rule, err := ParseRule(line)
		if err != nil {
			t.Fatal(err)
		}
		rules[i] = rule
	}
	set, err := NewSet(rules)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// hits asks a set and returns the names of the rule that refuses and of those in dry
// run, in one string.
func hits(s *Set, r *Request, now time.Time) string {
	hit, dry := s.Match(r, now, nil)
	var names []string
	if hit != nil {
		names = append(names, hit.Name)
	}
	for _, rule := range dry {
		names = append(names, "dry "+rule.Name)
	}
	return strings.Join(names, ", ")
}

// typical returns a request that has something of everything.
func typical() *Request {
	return &Request{
		Source: HTTP,
		Host:   "www.Example.com",
		URL:    "/w/%69ndex.php?title=A&action=edit",
		Path:   "/w/index.php",
		Query:  "title=A&action=edit",
		Method: "GET",
		Client: netip.MustParseAddr("198.51.100.7"),
		Header: map[string][]string{
			"User-Agent": {"Mozilla/5.0 (compatible; ExampleBot/2.1; +http://bot.example/)"},
			"Accept":     {"text/html", "*/*"},
			"X-Empty":    {""},
		},
	}
}

// Requirements S3.1 to S3.4.
func TestMatch(t *testing.T) {
	bare := func() *Request { return &Request{Source: HTTP, Method: "GET", Path: "/", URL: "/"} }
	tests := []struct {
		name    string
		rule    string
		request *Request
		want    bool
	}{
		{"path", "x path=/w/*", typical(), true},
		{"path in other case", "x path=/W/*", typical(), false},
		{"path as it was sent", "x path=*%69*", typical(), false},
		{"slash behind a file", "x path=*.php", &Request{Path: "/w/index.php/"}, true},
		{"slash behind a folder", "x path=/w", &Request{Path: "/w/"}, true},
		{"folder's slash", "x path=/w/", &Request{Path: "/w/"}, true},
		{"slash that is not there", "x path=/w/", &Request{Path: "/w"}, false},
		{"nothing but a slash", "x path=/", &Request{Path: "/"}, true},
		{"short pattern", "x path=/w*", typical(), true},
		{"whole path", "x path=/w/index.php", typical(), true},
		{"url as it was sent", "x url=/w/%69*edit", typical(), true},
		{"host in any case", "x host=*.EXAMPLE.com", typical(), true},
		{"host with the root's dot", "x host=www.example.com.", typical(), true},
		{"method in any case", "x method=get", typical(), true},
		{"other method", "x method=POST", typical(), false},
		{"query", "x query=*action=edit*", typical(), true},
		{"no parameters, but there are", `x query=""`, typical(), false},
		{"no parameters", `x query=""`, bare(), true},
		{"any query, and a path", "x query=* path=/", bare(), true},
		{"agent in any case", "x user_agent=*examplebot*", typical(), true},
		{"any agent, absent", "x user_agent=* path=/", bare(), true},
		{"an agent, absent", "x user_agent=*a*", bare(), false},
		{"an empty agent, absent", `x user_agent=""`, bare(), false},
		{"header, first value", "x header:accept=text/*", typical(), true},
		{"header, second value", "x header:Accept=*/*", typical(), true},
		{"header, no value", "x header:Accept=image/*", typical(), false},
		{"header values in other case", "x header:Accept=TEXT/*", typical(), false},
		{"empty header", `x header:X-Empty=""`, typical(), true},
		{"empty header, absent", `x header:X-None=""`, typical(), false},
		{"any header, absent", "x header:X-None=* path=/w/*", typical(), true},
		{"host, absent", "x host=*example*", bare(), false},
		{"several patterns", "x path=/a path=/w/* path=/b", typical(), true},
		{"a short one among several", "x path=/abcd path=/w*", typical(), true},
		{"all fields", "x path=/w/* host=*example.com client_ip=198.51.100.0/24 method=GET", typical(), true},
		{"all fields but one", "x path=/w/* host=*example.com client_ip=198.51.100.0/24 method=PUT", typical(), false},
		{"address", "x client_ip=198.51.100.7", typical(), true},
		{"range", "x client_ip=203.0.113.0/24 client_ip=198.51.100.0/24", typical(), true},
		{"other range", "x client_ip=198.51.101.0/24", typical(), false},
		{"mapped range", "x client_ip=::ffff:198.51.100.0/120", typical(), true},
		{"any address", "x client_ip=* path=/w/*", typical(), true},
		{"range, and other path", "x client_ip=198.51.100.0/24 path=/abcd", typical(), false},
		{"path, and other range", "x client_ip=203.0.113.0/24 path=/w/*", typical(), false},
		{"no address", "x client_ip=0.0.0.0/0", bare(), false},
		{"no address, and a path", "x client_ip=0.0.0.0/0 path=/*", bare(), false},
		{"source", "x source=http", typical(), true},
		{"other source", "x source=websocket path=/w/*", typical(), false},
		{"off", "x path=/w/* mode=off", typical(), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := ""
			if tt.want {
				want = "x"
			}
			if got := hits(newSet(t, tt.rule), tt.request, noon); got != want {
				t.Errorf("%s: got %q, want %q", tt.rule, got, want)
			}
		})
	}
}

func TestMatchOrder(t *testing.T) {
	set := newSet(t,
		"off path=/w/* mode=off",
		"dry1 path=/w/* mode=dry_run",
		"first path=*.php client_ip=198.51.100.0/24",
		"second client_ip=198.51.100.7",
		"third method=GET",
		"dry2 method=GET mode=dry_run",
	)
	steps := []struct {
		change func(r *Request)
		want   string
	}{
		{func(*Request) {}, "first"},
		{func(r *Request) { r.Path = "/w/" }, "second"},
		{func(r *Request) { r.Client = netip.Addr{} }, "third"},
		{func(r *Request) { r.Method = "PUT" }, "dry dry1"},
		{func(r *Request) { r.Path = "/" }, ""},
	}
	r := typical()
	for _, step := range steps {
		step.change(r)
		if got := hits(set, r, noon); got != step.want {
			t.Errorf("%+v: got %q, want %q", r, got, step.want)
		}
	}
	both := newSet(t, "b method=GET mode=dry_run", "a path=/w/* mode=dry_run", "c client_ip=::/0 mode=dry_run")
	if got := hits(both, typical(), noon); got != "dry b, dry a" {
		t.Errorf("got %q", got)
	}
}

// Rows B13, B16, B17, L124: a rule ends by itself, and others that match as well go on.
func TestMatchHonoursExpiry(t *testing.T) {
	set := newSet(t,
		"a client_ip=198.51.100.7 expires=2026-11-30T12:00:01Z",
		"b path=/w/* expires=2026-11-30T12:00:02Z",
		"c method=GET mode=dry_run expires=2026-11-30T12:00:03Z",
	)
	for i, want := range []string{"a", "b", "dry c", ""} {
		if got := hits(set, typical(), noon.Add(time.Duration(i)*time.Second)); got != want {
			t.Errorf("after %d s: got %q, want %q", i, got, want)
		}
	}
}

// Nested ranges are all found, not only the longest one.
func TestMatchNestedRanges(t *testing.T) {
	set := newSet(t,
		"a client_ip=198.51.100.0/24 mode=dry_run",
		"b client_ip=198.51.100.7 client_ip=198.51.100.7/32 mode=dry_run",
		"c client_ip=198.0.0.0/8 mode=dry_run",
		"d client_ip=198.51.100.8 mode=dry_run",
		"e client_ip=0.0.0.0/0 mode=dry_run",
	)
	if got, want := hits(set, typical(), noon), "dry a, dry b, dry c, dry e"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	r := typical()
	r.Client = netip.MustParseAddr("::ffff:198.51.100.8") // B47
	if got, want := hits(set, r, noon), "dry a, dry c, dry d, dry e"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNewSetErrors(t *testing.T) {
	bad := func(name string) Rule {
		return Rule{Name: name, Mode: Off, Fields: []Field{{Name: "path", Patterns: []string{"x"}}}}
	}
	good := Rule{Name: "good", Source: Job}
	set, err := NewSet([]Rule{bad("a"), good, bad("b"), good})
	want := `rule "a": path: "x" must begin with / or *
rule "b": path: "x" must begin with / or *
rule "good": there are two rules of this name`
	if set != nil || message(err) != want {
		t.Errorf("got %v and\n%s\nwant no set and\n%s", set, message(err), want)
	}
	if _, err := NewSet(make([]Rule, MaxRules+1)); message(err) != "rules: must be at most 250000, got 250001" {
		t.Errorf("got %q", message(err))
	}
}

func TestSetKeepsItsRules(t *testing.T) {
	rules := []Rule{{Name: "a", Source: HTTP}}
	set, err := NewSet(rules)
	if err != nil {
		t.Fatal(err)
	}
	rules[0].Name = "b"
	if got := hits(set, typical(), noon); got != "a" {
		t.Errorf("got %q", got)
	}
}

// A value that is large is matched, and its room is not kept for ever.
func TestMatchLargeValues(t *testing.T) {
	set := newSet(t, "x header:X-Large=*needle*")
	r := typical()
	r.Header["X-Large"] = slices.Repeat([]string{strings.Repeat("need", 10_000)}, 100)
	if got := hits(set, r, noon); got != "" {
		t.Errorf("got %q", got)
	}
	r.Header["X-Large"][99] += "needle"
	if got := hits(set, r, noon); got != "x" {
		t.Errorf("got %q", got)
	}
	if got := hits(set, typical(), noon); got != "" {
		t.Errorf("got %q from the request before", got)
	}
	sc := set.pool.Get().(*scratch)
	for _, text := range sc.slots[0].texts {
		if cap(text) > roomy {
			t.Errorf("keeps %d bytes", cap(text))
		}
	}
}

// Thousands of rules that look for the same bytes, and a request that holds them a
// thousand times, in one value or in many, B38: the index goes through the rules once.
func TestMatchOfOftenRepeatedBytes(t *testing.T) {
	var rules []Rule
	for i := range 2_000 {
		rules = append(rules, Rule{Name: strconv.Itoa(i), Fields: []Field{
			{Name: "user_agent", Patterns: []string{"*greedybot*", "greedybot"}},
			{Name: "method", Patterns: []string{"P*T"}},
		}})
	}
	set, err := NewSet(rules)
	if err != nil {
		t.Fatal(err)
	}
	r := typical()
	r.Header["User-Agent"] = append(slices.Repeat([]string{"greedybot"}, 1_000), strings.Repeat("greedybot", 1_000))
	sc := set.pool.Get().(*scratch)
	for _, text := range set.refuse.index.texts {
		for _, value := range sc.values(r, &set.slots, text.slot) {
			text.find(value, sc)
		}
	}
	// One for the whole value, one for the bytes in it.
	if n := len(sc.groups.numbers); n != 2 {
		t.Errorf("%d groups of rules were found, want 2", n)
	}
	if hit, _ := set.Match(r, noon, nil); hit != nil {
		t.Errorf("got %q", hit.Name)
	}
	r.Method = "PUT"
	if hit, _ := set.Match(r, noon, nil); hit == nil || hit.Name != "0" {
		t.Errorf("got %v", hit)
	}
}

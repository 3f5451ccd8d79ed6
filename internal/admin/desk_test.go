package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/blocklist/filelist"
	"github.com/weirhq/caddy-weir/blocklist/keepertest"
	"github.com/weirhq/caddy-weir/blocklist/redislist"
	"github.com/weirhq/caddy-weir/internal/config"
	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter/redisstore"
)

// desk returns a desk on a list in a file.
func desk(t *testing.T) Desk {
	t.Helper()
	k := filelist.Open(filepath.Join(t.TempDir(), "list"), nil)
	t.Cleanup(func() { _ = k.Close() })
	return Desk{Direct{&config.Place{
		Keeper: k, Where: "a file", Name: k.Name, Close: k.Close,
		Protected: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}}}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func names(l List) (all []string) {
	for i := range l.Rules {
		all = append(all, l.Rules[i].Name)
	}
	return all
}

var ann = Order{By: "ann"}

func TestRulesComeAndGo(t *testing.T) {
	d, ctx := desk(t), t.Context()
	done := must[Done](t)
	made := done(d.Add(ctx, Add{Order: ann, Lines: []string{"a path=/a", "b path=/b"}, Expires: "90m"}))
	if made.Version != 1 || !slices.Equal(made.Put, []string{"a", "b"}) || made.Ends == nil {
		t.Errorf("got %+v", made)
	}
	if left := time.Until(*made.Ends); left < 89*time.Minute || left > 90*time.Minute {
		t.Errorf("ends in %s, want 90m", left)
	}
	made = done(d.Add(ctx, Add{Order: ann, Rules: []config.Rule{{Name: "b", Path: []string{"/bb"}}, {Name: "c", Path: []string{"/c"}, Expires: "never"}}}))
	if !slices.Equal(made.Put, []string{"c"}) || !slices.Equal(made.Replaced, []string{"b"}) {
		t.Errorf("got %+v", made)
	}
	if left := time.Until(*made.Ends); left < 23*time.Hour || left > 24*time.Hour {
		t.Errorf("a rule without an end ends in %s", left)
	}
	done(d.SetMode(ctx, SetMode{Order: ann, Mode: "dry_run", Names: []string{"a", "c"}}))
	l := must[List](t)(d.List(ctx, Narrow{}))
	for _, r := range l.Rules {
		if dry := strings.Contains(r.Text, "mode=dry_run"); dry != (r.Name != "b") {
			t.Errorf("%s", r.Text)
		}
	}
	if _, err := d.SetMode(ctx, SetMode{Order: ann, Mode: "off", Names: []string{"a", "none"}}); !errors.Is(err, blocklist.ErrRefused) {
		t.Errorf("a mode for a rule that is not there: %v", err)
	}
	undone := done(d.Undo(ctx, Undo{Order: ann, Version: 3}))
	if !slices.Equal(undone.Replaced, []string{"a", "c"}) {
		t.Errorf("undo did %+v", undone)
	}
	done(d.Remove(ctx, Remove{Order: ann, Names: []string{"a", "b"}}))
	if l := must[List](t)(d.List(ctx, Narrow{})); !slices.Equal(names(l), []string{"c"}) || l.Version != 5 || l.Keeper != "a file" {
		t.Errorf("got %+v", l)
	}
	records := must[[]Record](t)(d.History(ctx, 0))
	if len(records) != 5 || records[0].By != "ann" || records[1].Undid != 3 || !strings.HasPrefix(records[4].Did[0], "rule a path=/a") {
		t.Errorf("got %+v", records)
	}
}

// TestNothingIsHalfDone has one mistake among what is right.
func TestNothingIsHalfDone(t *testing.T) {
	d, ctx := desk(t), t.Context()
	for name, do := range map[string]func() (Done, error){
		"add": func() (Done, error) {
			return d.Add(ctx, Add{Order: ann, Lines: []string{"a path=/a", "b path=b"}})
		},
		"objects": func() (Done, error) {
			return d.Add(ctx, Add{Order: ann, Rules: []config.Rule{{Name: "a", Path: []string{"/a"}}, {Name: "b"}, {Name: "b", Mode: "on"}}})
		},
		"none": func() (Done, error) { return d.Add(ctx, Add{Order: ann}) },
		"expires": func() (Done, error) {
			return d.Add(ctx, Add{Order: ann, Lines: []string{"a path=/a"}, Expires: "soon"})
		},
		"import": func() (Done, error) { return d.Import(ctx, Import{Order: ann, Text: "rule a path=/a\nrule b path=b"}) },
		"remove": func() (Done, error) { return d.Remove(ctx, Remove{Order: ann, Names: []string{"a"}}) },
		"nobody": func() (Done, error) { return d.Remove(ctx, Remove{Order: ann}) },
		"undo":   func() (Done, error) { return d.Undo(ctx, Undo{Order: ann, Version: 7}) },
		"mode":   func() (Done, error) { return d.SetMode(ctx, SetMode{Order: ann, Mode: "on"}) },
		"caller": func() (Done, error) {
			return d.SetMode(ctx, SetMode{Order: Order{By: "ann", Caller: "me"}, Mode: "off"})
		},
		"by":   func() (Done, error) { return d.SetMode(ctx, SetMode{Mode: "off"}) },
		"ban":  func() (Done, error) { return d.Ban(ctx, BanKey{Order: ann, Client: "192.0.2.300"}) },
		"key":  func() (Done, error) { return d.Ban(ctx, BanKey{Order: ann, Key: "4711"}) },
		"lift": func() (Done, error) { return d.Lift(ctx, Lift{Order: ann, Client: "192.0.2.1"}) },
	} {
		if _, err := do(); !errors.Is(err, blocklist.ErrRefused) {
			t.Errorf("%s: got %v, want it to be refused", name, err)
		} else if status := failure(err).(caddy.APIError).HTTPStatus; status != http.StatusBadRequest {
			t.Errorf("%s: status %d", name, status)
		}
	}
	if l := must[List](t)(d.List(ctx, Narrow{})); l.Version != 0 || len(l.Rules) > 0 {
		t.Errorf("something was done: %+v", l)
	}
}

func TestDangerNeedsForce(t *testing.T) {
	d, ctx := desk(t), t.Context()
	from := Order{By: "ann", Caller: "::ffff:198.51.100.9"}
	for name, do := range map[string]func(o Order) (Done, error){
		"everything": func(o Order) (Done, error) { return d.Add(ctx, Add{Order: o, Lines: []string{"a path=*"}}) },
		"own": func(o Order) (Done, error) {
			return d.Add(ctx, Add{Order: o, Lines: []string{"b client_ip=198.51.100.0/24"}})
		},
		"protected": func(o Order) (Done, error) {
			return d.Import(ctx, Import{Order: o, Text: "rule c client_ip=127.0.0.1"})
		},
		"ban": func(o Order) (Done, error) { return d.Ban(ctx, BanKey{Order: o, Client: "198.51.100.9"}) },
	} {
		_, err := do(from)
		if !errors.Is(err, ErrDanger) || failure(err).(caddy.APIError).HTTPStatus != http.StatusConflict {
			t.Errorf("%s: got %v, want it to need force", name, err)
		}
		forced := from
		forced.Force = true
		made, err := do(forced)
		if err != nil || len(made.Insisted) == 0 {
			t.Errorf("%s, forced: %+v, %v", name, made, err)
		}
	}
}

func TestBans(t *testing.T) {
	d, ctx := desk(t), t.Context()
	done := must[Done](t)
	done(d.Ban(ctx, BanKey{Order: ann, Client: "203.0.113.77/24", Until: "1h", Note: "who?"}))
	done(d.Ban(ctx, BanKey{Order: ann, Client: "203.0.113.5", Scope: "site:Example.com"}))
	done(d.Ban(ctx, BanKey{Order: ann, Key: "4711", Scope: "zone:api"}))
	l := must[List](t)(d.List(ctx, Narrow{Bans: 10, Client: "203.0.113.5"}))
	if len(l.Bans) != 2 || l.BansTotal != 3 {
		t.Errorf("of the address there are %+v, of %d", l.Bans, l.BansTotal)
	}
	if l := must[List](t)(d.List(ctx, Narrow{Bans: 1})); len(l.Bans) != 1 || l.Bans[0].Scope != "zone:api" {
		t.Errorf("the latest ban is %+v", l.Bans)
	}
	v := must[Verdict](t)(d.Test(ctx, config.Ask{URL: "http://example.com/", ClientIP: "203.0.113.99"}))
	if v.Outcome != Refuse || v.By != "bans" || v.Ban == "" {
		t.Errorf("a banned client: %+v", v)
	}
	if made := done(d.Lift(ctx, Lift{Order: ann, Client: "203.0.113.5", Scope: "site:example.com"})); made.Lifted != 1 {
		t.Errorf("lifted %+v", made)
	}
	if made := done(d.Lift(ctx, Lift{Order: ann, Client: "203.0.113.5"})); made.Lifted != 1 {
		t.Errorf("lifted %+v", made)
	}
	l = must[List](t)(d.List(ctx, Narrow{Bans: 10}))
	if len(l.Bans) != 1 {
		t.Fatalf("left are %+v", l.Bans)
	}
	if made := done(d.Lift(ctx, Lift{Order: ann, ID: l.Bans[0].ID})); made.Lifted != 1 {
		t.Errorf("lifted %+v", made)
	}
}

// TestExportComesBack writes a list down and makes it anew from that.
func TestExportComesBack(t *testing.T) {
	one, two, ctx := desk(t), desk(t), t.Context()
	done, text := must[Done](t), must[string](t)
	done(one.Add(ctx, Add{Order: ann, Lines: []string{`a path=/a note="with \"quotes\""`, "b agent=bot action=mark scope=site:x.example", "c source=job dropped=retry:1m0s handler=x"}}))
	done(one.Ban(ctx, BanKey{Order: ann, Client: "203.0.113.5"}))
	done(one.SetMode(ctx, SetMode{Order: ann, Mode: "dry_run"}))
	body := func(s string) string {
		lines := strings.SplitAfter(s, "\n")
		return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "#") }), "")
	}
	written := text(one.Export(ctx))
	done(two.Add(ctx, Add{Order: ann, Lines: []string{"old path=/old"}}))
	// Under the other secret the ban is nobody's.
	if _, err := two.Import(ctx, Import{Order: ann, Text: written}); !errors.Is(err, ErrDanger) || !strings.HasPrefix(err.Error(), "1 of its lines") {
		t.Errorf("with a ban of another secret: %v", err)
	}
	done(one.Import(ctx, Import{Order: ann, Text: written}))
	made := done(two.Import(ctx, Import{Order: Order{By: "bob", Force: true}, Text: written, Replace: true}))
	if !slices.Equal(made.Removed, []string{"old"}) || made.Banned != 1 || made.Mode != "dry_run" {
		t.Errorf("got %+v", made)
	}
	if again := text(two.Export(ctx)); body(again) != body(written) {
		t.Errorf("exported\n%s\nwant\n%s", again, written)
	}
}

// TestReplaceWhatIsOver takes out all rules while one that is over still lies there: the keeper knows it no more.
func TestReplaceWhatIsOver(t *testing.T) {
	place := *desk(t).Board.(Direct).Place
	server := redistest.Start(t, redistest.Options{})
	k, err := redislist.Open(redisstore.Options{Addresses: []string{server.Addr()}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	place.Keeper = k
	d, ctx := Desk{Direct{&place}}, t.Context()
	ended := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	must[uint64](t)(k.Apply(ctx, blocklist.Change{By: "ann", Put: []blocklist.Rule{
		keepertest.Rule(t, "short path=/s expires="+ended), keepertest.Rule(t, "long path=/l"),
	}}))
	made := must[Done](t)(d.Import(ctx, Import{Order: ann, Text: "rule new path=/n", Replace: true}))
	if !slices.Equal(made.Removed, []string{"long"}) {
		t.Errorf("got %+v", made)
	}
}

// TestBeforeTheApp asks the routes while no configuration runs.
func TestBeforeTheApp(t *testing.T) {
	for _, route := range new(API).Routes() {
		r := httptest.NewRequest(http.MethodGet, strings.TrimSuffix(route.Pattern, "/")+"/list", nil)
		if !strings.HasSuffix(route.Pattern, "/") {
			r = httptest.NewRequest(http.MethodGet, route.Pattern, nil)
		}
		var api caddy.APIError
		if err := route.Handler.ServeHTTP(httptest.NewRecorder(), r); !errors.As(err, &api) || api.HTTPStatus != http.StatusServiceUnavailable {
			t.Errorf("%s: got %v, want 503", route.Pattern, err)
		}
	}
}

// TestReadOrder reads bodies in both forms.
func TestReadOrder(t *testing.T) {
	read := func(target, kind, body string, what any) error {
		r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(body))
		r.Header.Set("Content-Type", kind)
		r.RemoteAddr = "192.0.2.9:1234"
		return readOrder(r, what)
	}
	var a Add
	if err := read("/?by=ann&force=true&expires=1h", "text/plain; charset=utf-8", "# two\na path=/a\n\nb path=/b\n", &a); err != nil {
		t.Fatal(err)
	}
	if !a.Force || a.By != "ann" || a.Caller != "192.0.2.9" || a.Expires != "1h" || !slices.Equal(a.Lines, []string{"# two", "a path=/a", "", "b path=/b"}) {
		t.Errorf("got %+v", a)
	}
	var rm Remove
	if err := read("/", "", `{"names": ["a"], "caller": "198.51.100.1"}`, &rm); err != nil {
		t.Fatal(err)
	}
	if rm.By != "admin@192.0.2.9" || rm.Caller != "198.51.100.1" {
		t.Errorf("got %+v", rm)
	}
	for body, want := range map[string]string{
		`{"nmes": []}`: `unknown field "nmes"`, `{} {}`: "more than one JSON value", `{}]`: "more than one JSON value", ``: "EOF", `[]`: "cannot unmarshal array",
	} {
		if err := read("/", "application/json", body, &rm); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", body, err, want)
		}
	}
	if err := read("/?force=perhaps", "text/plain", "a path=/a", &a); err == nil || !strings.Contains(err.Error(), "force: must be true or false") {
		t.Errorf("got %v", err)
	}
	if err := read("/", "text/plain", "a", &rm); err == nil {
		t.Error("names as text were taken")
	}
	var tooLarge *http.MaxBytesError
	if err := read("/", "text/plain", strings.Repeat("x", maxBody+1), &a); !errors.As(err, &tooLarge) {
		t.Errorf("got %v", err)
	}
}

// TestClient asks a server that answers as Caddy's admin endpoint does.
func TestClient(t *testing.T) {
	var asked []string
	mux := http.NewServeMux()
	mux.HandleFunc("/weir/block/remove", func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.Header.Get("Origin"))
		w.WriteHeader(http.StatusConflict)
		_, _ = w.Write([]byte(`{"error":"it is dangerous"}`))
	})
	mux.HandleFunc("/weir/block/export", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("mode off\n")) })
	for _, silent := range []string{"mode", "preview"} {
		mux.HandleFunc("/weir/block/"+silent, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // or the server does not see who hangs up
			<-r.Context().Done()
		})
	}
	mux.HandleFunc("/weir/block/trail", func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	server := httptest.NewServer(mux)
	defer server.Close()
	c, err := NewClient(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Remove(t.Context(), Remove{Names: []string{"a"}}); !errors.Is(err, ErrDanger) || err.Error() != "it is dangerous" {
		t.Errorf("got %v", err)
	}
	if want := []string{"POST " + server.URL}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	if text, err := c.Export(t.Context()); err != nil || text != "mode off\n" {
		t.Errorf("got %q, %v", text, err)
	}
	if _, err := c.Undo(t.Context(), Undo{}); err == nil || !strings.Contains(err.Error(), "has no module weir") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	const unknown = "whether the change was made is not known"
	var away *AwayError
	if _, err := c.SetMode(ctx, SetMode{Mode: "off"}); !errors.As(err, &away) || !strings.Contains(err.Error(), unknown) {
		t.Errorf("of a change: %v", err)
	}
	if _, err := c.Preview(ctx, Add{}); !errors.As(err, &away) || strings.Contains(err.Error(), unknown) {
		t.Errorf("of a question: %v", err)
	}
	if _, err := c.History(ctx, 1); !errors.As(err, &away) || !strings.Contains(err.Error(), "does not answer in time") {
		t.Errorf("got %v", err)
	}
}

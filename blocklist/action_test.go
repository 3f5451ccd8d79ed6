package blocklist

import (
	"encoding/json"
	"testing"
)

func TestActionText(t *testing.T) {
	for text, want := range map[string]Action{
		"400": 400, "599": 599, "abort": Abort, "tarpit": Tarpit, "mark": Mark,
	} {
		got, err := ParseAction(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	const must = "must be a status from 400 to 599, abort, tarpit or mark, got "
	for text, want := range map[string]string{
		"": `""`, "0": `"0"`, "-1": `"-1"`, "399": "399", "600": "600", "Mark": `"Mark"`, "404 ": `"404 "`,
	} {
		if _, err := ParseAction(text); message(err) != must+want {
			t.Errorf("%q: got %v", text, err)
		}
	}
	for _, a := range []Action{Mark - 1, 1, 399, 600} {
		r := Rule{Name: "x", Action: a, Fields: []Field{{Name: "path", Patterns: []string{"/"}}}}
		if err := r.Check(); message(err) != `rule "x": action: `+must+a.String() {
			t.Errorf("%d: got %v", a, err)
		}
	}
}

// A status is a number and the rest are words; what is neither is told of, by the decoder or
// by Check.
func TestActionJSON(t *testing.T) {
	type rule struct {
		Action Action `json:"action,omitempty"`
	}
	for text, want := range map[string]Action{
		`{}`: 0, `{"action":404}`: 404, `{"action":"abort"}`: Abort, `{"action":"tarpit"}`: Tarpit, `{"action":"mark"}`: Mark,
	} {
		var got rule
		if err := json.Unmarshal([]byte(text), &got); err != nil || got.Action != want {
			t.Errorf("%s: got %v, %v", text, got.Action, err)
		}
		if back, err := json.Marshal(got); err != nil || string(back) != text {
			t.Errorf("%s: written as %s, %v", text, back, err)
		}
	}
	for _, text := range []string{`-1`, `-403`, `403.5`, `true`, `["abort"]`, `"close"`, `""`, `1e30`} {
		var got rule
		if err := json.Unmarshal([]byte(`{"action":`+text+`}`), &got); err == nil {
			t.Errorf("%s: read as %v", text, got.Action)
		}
	}
	for _, text := range []string{`0`, `null`} {
		got := rule{Action: 404}
		if err := json.Unmarshal([]byte(`{"action":`+text+`}`), &got); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A rule that marks refuses nobody: what refuses goes before it wherever it stands, and
// rules in dry run are looked at as if it were not there.
func TestMarkRefusesNobody(t *testing.T) {
	path := func(name string, a Action, m Mode, pattern string) Rule {
		return Rule{Name: name, Action: a, Mode: m, Fields: []Field{{Name: "path", Patterns: []string{pattern}}}}
	}
	set, err := NewSet([]Rule{
		path("first", Mark, Enforce, "/a*"),
		path("second", Mark, Enforce, "/a*"),
		path("abort", Abort, Enforce, "/ab*"),
		path("trial", 404, DryRun, "/*c"),
		path("trial mark", Mark, DryRun, "/*c"),
		path("off", Mark, Off, "/*"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/a": "first", "/ab": "abort", "/abc": "abort", "/ac": "first, dry trial, dry trial mark",
		"/c": "dry trial, dry trial mark", "/": "",
	} {
		if got := hits(set, &Request{Path: path}, noon); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

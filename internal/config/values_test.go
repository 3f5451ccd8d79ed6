package config

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestParts(t *testing.T) {
	for text, want := range map[string]Parts{
		`null`: nil, `""`: nil, `[]`: nil, `[""]`: nil,
		`"a b"`: {"a b"}, `["a"]`: {"a"}, `["a", ""]`: {"a", ""},
	} {
		var p Parts
		if err := json.Unmarshal([]byte(text), &p); err != nil || !slices.Equal(p, want) {
			t.Errorf("%s: %q, %v, want %q", text, p, err, want)
		}
		// Zones of one name are compared by their JSON.
		written, err := json.Marshal(p)
		var again Parts
		if err == nil {
			err = json.Unmarshal(written, &again)
		}
		if err != nil || !slices.Equal(again, want) {
			t.Errorf("%s: written as %s and read as %q, %v", text, written, again, err)
		}
	}
	for _, text := range []string{`5`, `{}`, `[1]`, `true`} {
		if err := json.Unmarshal([]byte(text), new(Parts)); err == nil {
			t.Errorf("%s was taken for a key", text)
		}
	}
}

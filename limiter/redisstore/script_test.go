package redisstore

import (
	"os"
	"path/filepath"
	"testing"
)

// TestScripts compares what is really sent to the server with what was reviewed.
// UPDATE_GOLDEN=1 rewrites it.
func TestScripts(t *testing.T) {
	const all = (1<<len(kinds) - 1) &^ (1 << 4) // min_interval has its twin in token_bucket
	for name, s := range map[string]*script{
		"take_sliding_window": takeScript(1 << slidingWindow),
		"take_all":            takeScript(all),
		"adjust_all":          adjustScript(all),
		"lease":               leaseScript,
	} {
		path := filepath.Join("testdata", name+".lua")
		if os.Getenv("UPDATE_GOLDEN") != "" {
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(s.text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if s.text != string(want) {
			t.Errorf("%s differs from the joined script; if that is meant, run again with UPDATE_GOLDEN=1", path)
		}
	}
}

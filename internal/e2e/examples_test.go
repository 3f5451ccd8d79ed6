package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestExamplesValidate adapts and provisions every example as it stands. That each also
// does what it says is told by the scripts example-*.txtar.
func TestExamplesValidate(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join("..", "..", "examples", "*"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("examples: %d found, %v", len(folders), err)
	}
	for _, folder := range folders {
		name := filepath.Base(folder)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("caddy", "validate", "--config", "Caddyfile", "--adapter", "caddyfile")
			cmd.Dir = folder
			home := t.TempDir()
			cmd.Env = append(os.Environ(), "HOME="+home, "XDG_DATA_HOME="+home, "XDG_CONFIG_HOME="+home,
				// What an example takes from its surroundings.
				"REDIS_PASSWORD=a password")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if bytes.Contains(out, []byte("not formatted")) {
				t.Error("the Caddyfile is not as `caddy fmt` writes it")
			}
			story := filepath.Join("testdata", "script", "example-"+name+".txtar")
			if _, err := os.Stat(story); err != nil {
				t.Errorf("no story runs this example: %v", err)
			}
		})
	}
}

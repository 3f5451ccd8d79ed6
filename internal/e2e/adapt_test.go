package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	caddyserver "github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/weirhq/caddy-weir"
)

// ruler stands between the Caddyfile and what it adapts to, as in Caddy's own tests.
const ruler = "\n----------\n"

// TestAdapt compares what Caddyfiles adapt to, or the error they get, with the second
// half of each golden file. UPDATE_GOLDEN=1 rewrites that half.
func TestAdapt(t *testing.T) {
	files, err := filepath.Glob("testdata/adapt/*.caddyfiletest")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".caddyfiletest"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source, want, _ := strings.Cut(string(data), ruler)
			got, err := adapt(source + "\n")
			if err != nil {
				got = err.Error()
			}
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(file, []byte(source+ruler+got+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != strings.TrimSuffix(want, "\n") {
				t.Errorf("adapted to\n%s\nwant\n%s", got, want)
			}
			if strings.HasPrefix(t.Name(), "TestAdapt/error_") {
				if err == nil {
					t.Error("got no error")
				}
			} else if err != nil {
				t.Error(err)
			} else if err := validate(t, got); err != nil {
				t.Errorf("adapts, and is not valid: %v", err)
			}
		})
	}
}

// adapt returns a Caddyfile as indented JSON.
func adapt(source string) (string, error) {
	result, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(source), nil)
	if err != nil {
		return "", err
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, result, "", "\t"); err != nil {
		return "", err
	}
	return pretty.String(), nil
}

// validate loads a configuration as far as `caddy validate` does: everything is set up
// and nothing started. The environment variables that it names have a value meanwhile.
func validate(t *testing.T, config string) error {
	t.Helper()
	for _, name := range regexp.MustCompile(`{env\.(\w+)}`).FindAllStringSubmatch(config, -1) {
		t.Setenv(name[1], "set by the test")
	}
	var parsed caddyserver.Config
	if err := json.Unmarshal([]byte(config), &parsed); err != nil {
		return err
	}
	return caddyserver.Validate(&parsed)
}

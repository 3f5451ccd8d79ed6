package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/caddy-weir/internal/config"
)

// FuzzCaddyfile adapts blocks of our directives: nothing panics, what adapts does so
// the same way again, and its JSON says nothing that the configuration does not know
// or would write otherwise.
func FuzzCaddyfile(f *testing.F) {
	files, err := filepath.Glob("testdata/adapt/*.caddyfiletest")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		source, _, _ := strings.Cut(string(data), ruler)
		for i, word := range []string{"rate_limit", "block", "weir"} {
			if _, body, ok := strings.Cut(source, "\t"+word); ok {
				f.Add(uint8(i), strings.TrimSuffix(body, "\n}"))
			}
		}
	}
	f.Fuzz(func(t *testing.T, word uint8, body string) {
		// An import reads files, and is Caddy's own.
		if strings.Contains(body, "import") {
			return
		}
		source := []string{
			":80 {\n\t@api path /api\n\trate_limit" + body + "\n}\n",
			":80 {\n\t@api path /api\n\tblock" + body + "\n}\n",
			"{\n\tweir" + body + "\n}\n:80\n",
		}[word%3]
		first, err := adapt(source)
		if err != nil {
			return
		}
		if second, err := adapt(source); err != nil || first != second {
			t.Fatalf("adapted to\n%s\nand then to\n%s, %v", first, second, err)
		}
		var parsed any
		if err := json.Unmarshal([]byte(first), &parsed); err != nil {
			t.Fatal(err)
		}
		checkHandlers(t, parsed)
	})
}

// checkHandlers looks for our handlers and the app anywhere in a configuration.
func checkHandlers(t *testing.T, node any) {
	switch node := node.(type) {
	case []any:
		for _, child := range node {
			checkHandlers(t, child)
		}
	case map[string]any:
		switch node["handler"] {
		case "rate_limit":
			roundTrip(t, node, new(config.RateLimit))
		case "block":
			roundTrip(t, node, new(config.Block))
		}
		if app, ok := node["weir"].(map[string]any); ok {
			roundTrip(t, app, new(config.App))
		}
		for _, child := range node {
			checkHandlers(t, child)
		}
	}
}

// roundTrip reads an object strictly into what it configures and writes it again.
func roundTrip(t *testing.T, object map[string]any, target any) {
	handler, isHandler := object["handler"]
	delete(object, "handler")
	want, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(want))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(target); err != nil {
		t.Fatalf("%s: %v", want, err)
	}
	written, err := json.Marshal(target)
	if err != nil {
		t.Fatal(err)
	}
	var again any
	if err := json.Unmarshal(written, &again); err != nil {
		t.Fatal(err)
	}
	if got, _ := json.Marshal(again); !bytes.Equal(got, want) {
		t.Errorf("read\n%s\nand wrote\n%s", want, got)
	}
	if isHandler {
		object["handler"] = handler
	}
}

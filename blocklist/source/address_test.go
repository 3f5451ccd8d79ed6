package source

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSecretsStaySecret: what is shown of an address, and of what went wrong.
func TestSecretsStaySecret(t *testing.T) {
	body := "invalid key q/u?ery-s3cret for header-s3cret, Basic pass-s3cret\n"
	d, server := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }, Download{}, Options{})
	address := strings.Replace(server.URL, "http://", "http://user-s3cret:pass-s3cret@", 1) + "/list?key=q%2Fu%3Fery-s3cret&startup=true"
	how := Download{Header: http.Header{"Authorization": {"Bearer header-s3cret"}}, Dir: t.TempDir()}
	o := Options{}
	var reports []Status
	o.Report = func(st Status) { reports = append(reports, st) }
	d = source(t, address, how, o)
	check := func(what string) {
		t.Helper()
		if shown := fmt.Sprintf("%s %+v %v", d.Name(), d.Status(), reports); strings.Contains(shown, "s3cret") {
			t.Errorf("%s: %s", what, shown)
		}
		if want := server.URL + "/list?..."; d.Status().Where != want || d.Name() != want {
			t.Errorf("%s: %q, want %q", what, d.Status().Where, want)
		}
	}
	d.once(t)
	check("refused list")
	body = "198.51.100.1\nno s3cret here: header-s3cret q/u?ery-s3cret\n"
	d.once(t)
	if d.Status().Rejected != 1 || strings.Contains(d.Status().Lines[0].Text, "header-s3cret") {
		t.Errorf("rejected: %+v", d.Status().Lines)
	}
	body = "<html>"
	d.once(t)
	server.Close()
	d.once(t)
	if !strings.Contains(d.Status().Error, "connection refused") {
		t.Errorf("no server: %s", d.Status().Error)
	}
	for _, name := range []string{d.shelf.id + ".json"} {
		text, err := os.ReadFile(filepath.Join(how.Dir, name))
		if err != nil || strings.Contains(string(text), "s3cret") {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
	for _, address := range []string{"http://user:pass-s3cret@%zz/", "https://pass-s3cret@/x", "ftp://u:pass-s3cret@example.com", "http://example.com/?k=pass-s3cret#x"} {
		if _, err := URL(address, Download{}, Options{}); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestRedirectKeepsSecrets: another host gets neither the header nor the address we came from.
func TestRedirectKeepsSecrets(t *testing.T) {
	var got []*http.Request
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r)
		_, _ = io.WriteString(w, "198.51.100.1\n")
	}))
	defer other.Close()
	d, server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r)
		if r.URL.Path == "/list.txt" {
			http.Redirect(w, r, "/moved?token=s3cret", http.StatusMovedPermanently)
			return
		}
		http.Redirect(w, r, other.URL, http.StatusFound)
	}, Download{Header: http.Header{"X-Key": {"s3cret"}, "Authorization": {"Bearer s3cret"}}}, Options{})
	if _, differs, _ := d.once(t); !differs || len(got) != 3 {
		t.Fatalf("%d requests, %+v", len(got), d.Status())
	}
	if h := got[1].Header; h.Get("X-Key") != "s3cret" {
		t.Errorf("%s: %v", server.URL, h)
	}
	if h := got[2].Header; h.Get("X-Key") != "" || h.Get("Authorization") != "" || h.Get("Referer") != "" {
		t.Errorf("%s: %v", other.URL, h)
	}
}

func TestURLArguments(t *testing.T) {
	const noAddress = "must be an address that begins with https:// or http://"
	tests := []struct {
		address string
		how     Download
		o       Options
		want    string
	}{
		{"", Download{}, Options{}, noAddress},
		{"example.com/list", Download{}, Options{}, noAddress},
		{"file:///etc/passwd", Download{}, Options{}, noAddress},
		{"https:///list", Download{}, Options{}, noAddress},
		{"https://example.com/list#top", Download{}, Options{}, "must have no fragment"},
		{"http://lapi:8080/v1/decisions/stream", Download{}, Options{}, "must have startup=true in its query: without, the answer is only what has changed"},
		{"https://example.com/list", Download{Refresh: time.Minute}, Options{}, "refresh: must be at least 5m0s for example.com, got 1m0s"},
		{"https://www.spamhaus.org/drop/drop_v4.json", Download{Refresh: 30 * time.Minute}, Options{}, "refresh: must be at least 1h0m0s for www.spamhaus.org, got 30m0s"},
		{"https://api.AbuseIPDB.com./x", Download{Refresh: time.Hour}, Options{}, "refresh: must be at least 5h0m0s for api.AbuseIPDB.com., got 1h0m0s"},
		{"https://notspamhaus.org/x", Download{Refresh: time.Minute}, Options{}, "refresh: must be at least 5m0s for notspamhaus.org, got 1m0s"},
		{"https://8.8.8.8/x", Download{Refresh: time.Second}, Options{}, "refresh: must be at least 5m0s for 8.8.8.8, got 1s"},
		{"https://[::1]/x", Download{Refresh: time.Millisecond}, Options{}, "refresh: must be at least 1s for ::1, got 1ms"},
		{"https://example.com/x", Download{Refresh: -1}, Options{}, "refresh: must be at least 5m0s for example.com, got -1ns"},
		{"https://example.com/x", Download{Timeout: -1}, Options{}, "timeout: must be positive, got -1ns"},
		{"https://example.com/x", Download{Header: http.Header{"X Key": nil}}, Options{}, `header "X Key": is no name of a header`},
		{"https://example.com/x", Download{Header: http.Header{"X-Key": {"a\nb"}}}, Options{}, `header "X-Key": must have no control characters in its value`},
		{"https://example.com/x", Download{}, Options{Limits: Limits{IPv6Prefix: 8}}, "ipv6_prefix: must be from 32 to 128, got 8"},
	}
	for _, tt := range tests {
		if _, err := URL(tt.address, tt.how, tt.o); err == nil || err.Error() != tt.want {
			t.Errorf("%s: got %v, want %s", tt.address, err, tt.want)
		}
	}
	for _, address := range []string{
		"http://lapi:8080/v1/decisions/stream?startup=true", "http://127.0.0.1:8080/x", "http://10.1.2.3/x", "https://example.com",
	} {
		if _, err := URL(address, Download{}, Options{Name: "x"}); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

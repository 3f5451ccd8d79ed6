package e2e

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirhq/caddy-weir/internal/redistest"
)

// TestOldRequestsOutliveReload holds requests before their limit is asked, replaces the
// configuration under them, with everything of ours gone from the new one, and lets them
// go on: the handler of the old configuration still decides about them, and harms
// nothing.
func TestOldRequestsOutliveReload(t *testing.T) {
	for _, store := range []string{"memory", "redis"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			held := make(chan struct{}, 16)
			gate := make(chan struct{})
			guard := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				held <- struct{}{}
				<-gate
			}))
			defer guard.Close()

			global := ""
			if store == "redis" {
				global = "weir {\n redis " + redistest.Start(t, redistest.Options{}).Addr() + "\n}\n"
			}
			old := "{\n" + global + `}
:{$PORT} {
	route {
		forward_auth ` + strings.TrimPrefix(guard.URL, "http://") + ` {
			uri /
		}
		block {
			rule private {
				path /private
			}
		}
		rate_limit {
			zone all {
				key {client_ip}
				limit 5/1h
			}
		}
		respond "through"
	}
}
`
			node := serve(t, old)
			done := make(chan []shot, 1)
			go func() {
				shots, _ := load{urls: []string{node.url}, clients: 8, count: 8}.run()
				done <- shots
			}()
			for range 8 {
				<-held
			}
			node.change(t, ":{$PORT} {\n respond \"without\"\n}\n")
			if status := get(t, node.url); status != http.StatusOK {
				t.Errorf("new configuration: status %d", status)
			}
			close(gate)
			if got := tally(<-done); got != "200=5 429=3" {
				t.Errorf("requests of the old configuration: %s, want 200=5 429=3", got)
			}
			// And back, twice, so that what was released is taken again.
			node.change(t, old)
			node.change(t, strings.ReplaceAll(old, "through", "again"))
			if status := get(t, node.url); status != http.StatusOK && status != http.StatusTooManyRequests {
				t.Errorf("configuration taken again: status %d", status)
			}
		})
	}
}

func get(t *testing.T, url string) int {
	t.Helper()
	shots, err := load{urls: []string{url}, clients: 1, count: 1}.run()
	if err != nil {
		t.Fatal(err)
	}
	return shots[0].status
}

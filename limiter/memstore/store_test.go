package memstore

import (
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/storetest"
)

func TestContract(t *testing.T) {
	storetest.Exercise(t, func(_ testing.TB, now func() time.Time) limiter.Store {
		return New(Options{Now: now})
	})
}

func TestOracle(t *testing.T) {
	storetest.Oracle(t, func(_ testing.TB, now func() time.Time) limiter.Store {
		return New(Options{Now: now})
	}, 12)
}

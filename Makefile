# Weir: rate limits and blocking for Caddy. `make help` lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

MODULE := github.com/weirhq/caddy-weir
# The Caddy that is built is the one that the tests compile against.
CADDY_VERSION = $(shell go list -m -f '{{.Version}}' github.com/caddyserver/caddy/v2)
# Lint tools are pinned here, apart from go.mod, so that they never reach users.
GOFUMPT := go run mvdan.cc/gofumpt@v0.12.0
STATICCHECK := go run honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Flags for every `go test`, for instance GOTEST_FLAGS=-v.
GOTEST_FLAGS ?=
# Flags for bench-peers, bench-outage, bench-http and bench-feeds, for instance BENCH_FLAGS=-quick or
# BENCH_FLAGS='-pairs 30 -only redis/64'; -help tells of them, and -list of what is measured.
BENCH_FLAGS ?=
# How long each fuzz target runs.
FUZZTIME ?= 20s

SOURCES = $(shell find . -name '*.go' -not -name '*_test.go' -not -path './bin/*') \
	$(shell find . -name '*.lua' -not -path './bin/*') go.mod go.sum

.PHONY: help run build test test-module test-bench test-early test-redis check lint golden bench bench-peers bench-outage bench-http bench-feeds fuzz clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 21

run: bin/caddy ## build Caddy with this module and serve examples/quickstart on localhost:8080
	@sed -n '/^#/!q; s/^# \{0,1\}//p' examples/quickstart/Caddyfile
	@cd examples/quickstart && exec ../../bin/caddy run --config Caddyfile

build: bin/caddy ## build bin/caddy, a Caddy with this module in it

# The module has no published version here, so that xcaddy needs to be given one.
bin/caddy: $(SOURCES)
	@mkdir -p bin
	go tool xcaddy build $(CADDY_VERSION) --with $(MODULE)@v0.0.0=. --output bin/caddy

test: test-module test-bench test-early ## run all tests; a missing redis-server is installed first (apt-get or brew)

test-module: test-redis
	go test -race -shuffle=on -timeout 20m $(GOTEST_FLAGS) ./...

test-bench: test-redis
	cd internal/bench && go test -shuffle=on -timeout 10m $(GOTEST_FLAGS) $$(go list ./... | grep -v '/week$$')
	cd internal/bench && go test -race -shuffle=on -timeout 10m $(GOTEST_FLAGS) ./week

test-early: test-redis # see early_test.go
	go test -run '^TestEarlyData$$' $(GOTEST_FLAGS) ./internal/e2e

test-redis:
	@.ci/redis

check: lint test ## all that continuous integration checks

lint: ## formatting, vet, staticcheck and a tidy go.mod
	@unformatted=$$($(GOFUMPT) -l .); if [ -n "$$unformatted" ]; then \
		echo "not formatted by gofumpt:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	$(STATICCHECK) ./...
	go mod tidy -diff
	cd internal/bench && go vet ./... && $(STATICCHECK) ./... && go mod tidy -diff

golden: ## rewrite the golden files from what the program says now
	UPDATE_GOLDEN=1 go test $(GOTEST_FLAGS) ./...

bench: ## run every benchmark and write the numbers to bin/bench.txt
	@.ci/redis
	@mkdir -p bin
	go test -run '^$$' -bench . -benchmem -timeout 60m ./... | tee bin/bench.txt

# What is measured in full is written into docs/benchmarks.md.
COMPARE = cd internal/bench && go run . -write ../../docs/benchmarks.md $(BENCH_FLAGS)

bench-peers: ## measure this module beside plain Caddy and other limiters, in pairs (Linux, 12 minutes)
	@.ci/redis
	$(COMPARE) http memory redis accuracy

bench-outage: ## measure what requests meet while Redis is down, slow or replaced (Linux, 2 minutes)
	@.ci/redis
	$(COMPARE) outage

bench-http: ## measure more kinds of a Caddy with and without this module than bench-peers does (Linux)
	@.ci/redis
	$(COMPARE) http http-more

bench-feeds: ## play a week of 10,000 subscribers, with a zone for feeds and without, into docs/feeds.md
	cd internal/bench && go run . -write ../../docs/feeds.md $(BENCH_FLAGS) feeds

fuzz: ## run every fuzz target for FUZZTIME, one after the other
	@.ci/redis
	@for package in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

clean: ## remove what was built
	rm -rf bin

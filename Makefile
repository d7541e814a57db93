# ledgerlake: every task of the project. `make help` lists them; CI runs `make test` and nothing else.
#
# What a target needs is installed on demand into .cache/ (not tracked): tools from tools/go.mod, a
# Python environment, the Kafka jars, an S3 server. Remove .cache to start afresh.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.DELETE_ON_ERROR:

GO      ?= go
CACHE   := $(CURDIR)/.cache
BIN     := bin/ledgerlake
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# Packages whose tests start goroutines that share state: the race detector is worth its time there.
RACE    := ./internal/... ./objstore/... ./deltalog/... ./committer/... ./broker/... ./tiering/... ./reader/... ./reprocess/... ./web/... ./flight/... ./test/model
# Packages that start real services; all others need nothing but Go.
OUTSIDE := ./test/harness ./test/e2e ./test/crash ./test/stores ./test/seam
# Those among them that cost minutes have a target of their own.
ALONE   := ./test/pulsar ./test/clients

# Benchmarks: make micro PKG=./record BENCH=Iterator COUNT=6
PKG     ?= ./...
BENCH   ?= .
COUNT   ?= 1
TIME    ?= 1s
FUZZTIME ?= 20s
SEEDS   ?= 20000
SOAK    ?= 30m
MINUTES ?= 10

# The services of test/ read these.
export LEDGERLAKE_CACHE := $(CACHE)
export VERSITYGW_VERSION := v1.8.0

say = @printf '\n== %s\n' "$(1)"

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: ## build bin/ledgerlake
	$(GO) build -trimpath -ldflags "-X main.version=$(VERSION)" -o $(BIN) ./cmd/ledgerlake

# With the profile of ingest's drains and the broker's work all packages are compiled once more, which takes minutes.
.PHONY: release
release: ## build bin/ledgerlake as it is to be deployed: the compiler knows the hot path by a profile (minutes)
	$(GO) build -trimpath -pgo=cmd/ledgerlake/release.pgo -ldflags "-X main.version=$(VERSION)" -o $(BIN) ./cmd/ledgerlake

.PHONY: demo
demo: build ## the whole story on one screen: produce, tier, read across the seam
	$(BIN) demo

# Cheap checks come first, so that a slip shows within seconds; the last step is `go test` itself, so
# that its closing lines are the last that are printed.
.PHONY: test
test: lint unit race bench-once services ## all that CI runs, cheapest first
	$(call say,end to end: foreign readers and clients and crashes against the real binary)
	@$(GO) test -count=1 -timeout 60m $(OUTSIDE)

.PHONY: lint
lint: fmt-check house-rules vet staticcheck ## gofmt, vet, staticcheck and the house rules of internal/lint

.PHONY: house-rules
house-rules:
	$(call say,house rules)
	@$(GO) test -count=1 ./internal/lint

.PHONY: vet
vet:
	$(call say,vet)
	@$(GO) vet ./...

.PHONY: fmt-check
fmt-check:
	$(call say,gofmt)
	@out=$$(git ls-files -co --exclude-standard '*.go' | while read -r f; do [ ! -e "$$f" ] || echo "$$f"; done | xargs -r gofmt -l); \
	  [ -z "$$out" ] || { echo "gofmt would change these files; run 'make fmt':"; echo "$$out"; exit 1; }

.PHONY: staticcheck
staticcheck: $(CACHE)/bin/staticcheck
	$(call say,staticcheck)
	@$(CACHE)/bin/staticcheck ./...

.PHONY: fmt
fmt: ## format the Go files
	@gofmt -w $$(git ls-files -co --exclude-standard '*.go')

.PHONY: unit
unit: ## tests that need nothing but Go, fuzz seeds included
	$(call say,unit tests)
	@$(GO) test -timeout 40m $$($(GO) list ./... | grep -vFx "$$($(GO) list $(OUTSIDE) $(ALONE) ./internal/lint)")

.PHONY: race
race: ## short tests of the concurrent packages under the race detector
	$(call say,race detector)
	@if [ "$$($(GO) env CGO_ENABLED)" != 1 ] || ! command -v "$$($(GO) env CC)" >/dev/null; then \
	  echo "SKIP race: the race detector needs a C compiler"; [ "$${CI:-}" != true ]; \
	else \
	  LEDGERLAKE_POISON=1 $(GO) test -race -short -timeout 60m $$($(GO) list $(RACE) | grep -vFx "$$($(GO) list ./internal/lint)"); \
	fi

.PHONY: bench-once
bench-once: ## run every benchmark once, so that none rots
	$(call say,benchmarks; once each)
	@$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 30m $$($(GO) list ./... | grep -vFx "$$($(GO) list $(OUTSIDE) $(ALONE))") \
	  | grep -Ev '^(ok|\?|PASS|goos|goarch|pkg|cpu)' || [ "$${PIPESTATUS[0]}" = 0 ]

.PHONY: micro
micro: ## Go benchmarks: PKG=./record BENCH=regexp COUNT=6
	@mkdir -p $(CACHE)/bench
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -benchtime $(TIME) -count $(COUNT) $(PKG) | tee $(CACHE)/bench/new.txt

# Scenarios whose peers are not installed run without them, and the page says which sides ran.
.PHONY: bench
bench: build services ## the scenarios of `ledgerlake bench`, the most telling first, within MINUTES (10), and their page in .cache/bench/page; REFERENCE_BIN=path of kafka-delta-ingest, to run it beside
	@test/services/bench.sh $(CACHE)/bench --time $(MINUTES)

.PHONY: bench-full
bench-full: build services ## all cases at full length (hours)
	@test/services/bench.sh $(CACHE)/bench --full

# Old and new run in turn, so that a machine that gets slower does so for both.
.PHONY: bench-compare
bench-compare: $(CACHE)/bin/benchstat ## the same against another commit: REF=main PKG=./record COUNT=6
	@[ -n "$(REF)" ] || { echo "say what to compare with: make bench-compare REF=main PKG=./record"; exit 2; }
	@mkdir -p $(CACHE)/bench; rm -rf $(CACHE)/bench/ref; git worktree prune; \
	git worktree add -q --detach $(CACHE)/bench/ref $(REF); \
	trap 'git worktree remove --force $(CACHE)/bench/ref' EXIT; \
	: >$(CACHE)/bench/old.txt; : >$(CACHE)/bench/new.txt; \
	n=$(COUNT); [ "$$n" -gt 1 ] || n=6; \
	for i in $$(seq $$n); do \
	  $(GO) test -C $(CACHE)/bench/ref -run '^$$' -bench '$(BENCH)' -benchmem -benchtime $(TIME) $(PKG) >>$(CACHE)/bench/old.txt; \
	  $(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -benchtime $(TIME) $(PKG) >>$(CACHE)/bench/new.txt; \
	  echo "round $$i of $$n"; \
	done; \
	$(CACHE)/bin/benchstat $(CACHE)/bench/old.txt $(CACHE)/bench/new.txt

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (20s)
	@grep -rHoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | grep -v '^./.cache/' | sed 's/:func /\t/' | \
	while IFS=$$'\t' read -r file name; do \
	  printf '\n== %s in %s\n' "$$name" "$$(dirname "$$file")"; \
	  $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")"; \
	done

# A run of the tests plays a few hundred seeds; this plays many new ones. A seed that fails is named.
.PHONY: sim
sim: ## the simulation of the replicated committer: SEEDS=20000 seeds
	LEDGERLAKE_SEEDS=$(SEEDS) $(GO) test -count=1 -timeout 60m -v -run 'Seeds' ./committer/raft/sim

# The gate's tests have the same seeds each time. This looks for seeds that meet something rare.
.PHONY: seeds
seeds: ## the random tests that need nothing but Go, again and again with new seeds, for MINUTES (10); each failure with its seed
	@test/services/seeds.sh $(CACHE)/seeds $(MINUTES) $$(git grep -l '/internal/seedtest"' -- '*_test.go' | \
	  xargs -n 1 dirname | sort -u | sed 's|^|./|' | grep -vFx "$$(printf '%s\n' $(OUTSIDE) $(ALONE))")

.PHONY: e2e
e2e: services ## foreign readers and clients against the real binary
	$(GO) test -count=1 -timeout 20m -v ./test/e2e

.PHONY: crash
crash: services ## kill -9 runs of the real binary; LEDGERLAKE_KILLS=100 for a long one
	$(GO) test -count=1 -timeout 60m -v ./test/crash

# The readers of three logs, judged read by read; the Pulsar one needs its jars (make pulsar fetches them).
.PHONY: seam
seam: services ## reads from thousands of random places beside kills and store faults, of all three logs; LEDGERLAKE_READS=5000 LEDGERLAKE_KILLS=20 for a longer run
	test/services/pulsar.sh prepare
	LEDGERLAKE_READS=$${LEDGERLAKE_READS:-600} LEDGERLAKE_KILLS=$${LEDGERLAKE_KILLS:-6} LEDGERLAKE_PULSAR=1 $(GO) test -count=1 -timeout 60m -v ./test/seam

.PHONY: queue
queue: ## clients of a log that is killed, stopped and has disk errors, judged by what they saw; LEDGERLAKE_KILLS=100 for a long run
	LEDGERLAKE_QUEUE=1 $(GO) test -count=1 -timeout 60m -v ./test/queue

.PHONY: stores
stores: services ## many writers of one table on each log store; LEDGERLAKE_COMMITS=60 for a long run
	$(GO) test -count=1 -timeout 20m -v ./test/stores

.PHONY: ingest-matrix
ingest-matrix: services ## every format and number of partitions through all that goes wrong in a topic's life, on a real Kafka (minutes)
	LEDGERLAKE_MATRIX=1 $(GO) test -count=1 -timeout 30m -v -run TestIngestMatrix ./test/e2e

# At full rate of this machine: nothing else should run beside it.
.PHONY: soak
soak: services ## `ingest` at full rate on a real Kafka with all background work, and what of it grows: SOAK=30m; report in .cache/soak, which bench takes into its page
	@mkdir -p $(CACHE)/soak
	LEDGERLAKE_SOAK=$(SOAK) LEDGERLAKE_SOAK_COMMIT=$(VERSION) LEDGERLAKE_SOAK_OUT=$(CACHE)/soak $(GO) test -count=1 -timeout 24h -v -run TestSoak ./test/soak

.PHONY: e2e-spark
e2e-spark: services ## Spark reads our tables and we read Spark's (slow: a JVM and about 500 MB of packages); LEDGERLAKE_TABLES=50 for a long run
	test/services/spark.sh prepare
	LEDGERLAKE_SPARK=1 $(GO) test -count=1 -timeout 90m -v -run 'Spark' ./test/e2e ./test/stores

.PHONY: registry
registry: services ## `ingest` beside a real schema registry that stands still, dies and comes back (109 MB of packages)
	test/services/apicurio.sh prepare
	LEDGERLAKE_APICURIO=1 $(GO) test -count=1 -timeout 20m -v -run RealRegistry ./test/e2e

.PHONY: gateway
gateway: services ## foreign clients through `serve --upstream`, whose Kafka is killed and drops records; LEDGERLAKE_KILLS=20 for a long one
	LEDGERLAKE_GATEWAY=1 $(GO) test -count=1 -timeout 60m -v -run 'Gateway' ./test/e2e

.PHONY: pulsar
pulsar: ## topics of a real Pulsar become tables, beside Pulsar's own client; LEDGERLAKE_MESSAGES=2000000 for a long one
	test/services/pulsar.sh prepare
	LEDGERLAKE_PULSAR=1 $(GO) test -count=1 -timeout 60m -v ./test/pulsar

.PHONY: e2e-page
e2e-page: ## the page of `serve` in Chromium (needs /usr/bin/chromium and Node.js)
	test/services/browser.sh prepare
	LEDGERLAKE_PAGE=1 $(GO) test -count=1 -v -run Page ./test/e2e

.PHONY: conformance
conformance: build ## franz-go's own tests against `serve` (a minute; KGO_TEST_RECORDS=500000 for the long run)
	test/services/kgo.sh

.PHONY: conformance-librdkafka
conformance-librdkafka: build services ## librdkafka's own suite against `serve` (builds it once, 5 to 18 minutes; then half an hour)
	test/services/librdkafka.sh run

.PHONY: clients
clients: services ## Kafka clients, tools and a Kafka Streams job that others wrote, against `serve` (minutes)
	test/services/clients.sh prepare
	LEDGERLAKE_CLIENTS=1 $(GO) test -count=1 -timeout 30m -v ./test/clients

.PHONY: conformance-gateway
conformance-gateway: build services ## the same tests against a real Kafka and through `serve --upstream` in front of it: no difference
	test/services/kgo-gateway.sh

# A service that cannot be had skips its tests with a line that says so; with CI=true it is a failure.
.PHONY: services
services: ## install what the end-to-end tests talk to, into .cache
	$(call say,services)
	@test/services/prepare.sh

$(CACHE)/bin/staticcheck: tools/go.mod tools/go.sum
	@mkdir -p $(@D)
	$(GO) build -C tools -o $@ honnef.co/go/tools/cmd/staticcheck
	@touch $@

$(CACHE)/bin/benchstat: tools/go.mod tools/go.sum
	@mkdir -p $(@D)
	$(GO) build -C tools -o $@ golang.org/x/perf/cmd/benchstat
	@touch $@

.PHONY: clean
clean: ## remove what was built; .cache stays (remove it by hand to fetch everything again)
	rm -rf bin $(CACHE)/bench

# Everything that is run by hand or by .ci/run. Tools are pinned here and built
# by the Go command; nothing is installed into the tree.
VERSION       ?= 0.1.0
GOLANGCI_LINT ?= go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
FUZZTIME      ?= 1m
SEED          ?= 1
SEEDS         ?= 2000
SECONDS       ?= 60
LDFLAGS       := -s -w -X main.version=$(VERSION)

.PHONY: help dedupe build test race lint fuzz bench bench-quick bench-compare cluster cluster-long chaos chaos-groups chaos-retries model sim openapi ci clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

build: ## the static binary, bin/highwater
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/highwater ./server

test: ## what the README says
	go test ./...

race: ## the same under the race detector
	go test -race ./...

lint: ## vet, gofmt, golangci-lint with the import walls
	go vet ./...
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo 'run gofmt -w on these'; exit 1; }
	$(GOLANGCI_LINT) run --allow-serial-runners ./...

fuzz: ## every fuzz target for FUZZTIME each (FUZZTIME=10m)
	scripts/fuzz.sh $(FUZZTIME)

bench: ## measure the targets and write docs/PERFORMANCE.md
	go run ./scripts/bench

bench-quick: ## the same in about two minutes, for whether it runs; prints
	go run ./scripts/bench -quick

bench-compare: ## compare Go benchmarks with another commit (REF=main~1)
	scripts/bench/compare.sh $(REF)

cluster: ## three brokers on this machine (scripts/cluster.sh has the other commands)
	scripts/cluster.sh up

cluster-long: ## the long runs of the tests with real clusters
	HIGHWATER_FAILOVERS=20 HIGHWATER_ROLLING_ROUNDS=3 HIGHWATER_KILL_ALL_ROUNDS=30 \
	HIGHWATER_H48_ROUNDS=20 HIGHWATER_H48_PAUSE=15 HIGHWATER_H49_SECONDS=60 \
	go test ./server -count=1 -timeout 60m -v -run 'TestCluster_Leader|TestF39|TestF40|TestH48|TestH49'

chaos: ## three brokers under faults, and what their clients saw checked (SEED=1 SECONDS=60)
	cd scripts/chaos && go run . -seed $(SEED) -duration $(SECONDS)s

chaos-groups: ## consumer groups while brokers and coordinators are killed in a loop (SEED=1 SECONDS=600)
	cd scripts/chaos && go run . -seed $(SEED) -duration $(SECONDS)s -clients 4 -only kill,kill-leader,kill-controller,kill-coordinator,kill-two,kill-all

chaos-retries: ## every request sent again, also twice at once, while leaders are killed, paused and drained (SEED=1 SECONDS=60)
	cd scripts/chaos && go run . -seed $(SEED) -duration $(SECONDS)s -clients 4 -groups=false -retries 64 -only kill,kill-leader,kill-two,kill-all,pause,pause-leader,restart,restart-leader

model: ## the random model of replicas and controller (SEEDS=2000)
	HIGHWATER_MODEL_SEEDS=$(SEEDS) go test ./replication/model -count=1 -timeout 0 -v -run 'TestModel$$'

dedupe: ## the random model of message ids and producers (SEEDS=2000), and what it must notice
	HIGHWATER_DEDUPE_MODEL_SEEDS=$(SEEDS) go test ./storage/dedupe -count=1 -timeout 0 -v -run 'TestModel$$'
	HIGHWATER_DEDUPE_MUTATIONS=1 go test ./storage/dedupe -count=1 -timeout 0 -v -run TestMutations

sim: ## whole clusters in simulated time (SEEDS=2000)
	HIGHWATER_SIM_SEEDS=$(SEEDS) go test ./replication/sim -count=1 -timeout 0 -v -run TestSim

openapi: ## make openapi/openapi.json again from the annotations
	go generate ./openapi

ci: ## all that has to pass
	.ci/run

clean:
	rm -rf bin .cache

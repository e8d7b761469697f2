# Needs Go (the version go.mod names), a C compiler for race, and bash for docs. Nothing is installed outside bin/.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

FUZZTIME ?= 30s
LINT_VERSION := v2.15.0
LINT := bin/golangci-lint-$(LINT_VERSION)

.PHONY: help build demo test race fuzz lint bench gen docs cover man metrics-check completion-check

include deploy/kafka/kafka.mk

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/evalstream
	CGO_ENABLED=0 go build -trimpath -o bin/evalstream ./cmd/evalstream

demo: build ## evaluate the shipped BM25 run on TAT-QA dev (its gold and the run: CC BY 4.0)
	@bin/evalstream eval retrieval -o table --qrels testdata/tatqa/tatqa_dev.qrels testdata/tatqa/tatqa_dev.bm25.run

test: ## run the tests
	go test ./...

race: ## run the tests in random order under the race detector
	CGO_ENABLED=1 go test -race -shuffle=on ./...

crash: ## kill commands 100 times at random moments; EVALSTREAM_SEED replays
	EVALSTREAM_KILLS=$${EVALSTREAM_KILLS:-100} go test -count=1 -run TestKill -v ./cmd/evalstream

.PHONY: laws
laws: ## check the laws of the stages on ten times as many seeds (some minutes); EVALSTREAM_SEEDS says how many
	EVALSTREAM_SEEDS=$${EVALSTREAM_SEEDS:-10} go test -count=1 -timeout 30m -run 'TestOneDataflow|TestFrozenIsOpen|TestCrash|TestHorizon|TestConflicts' ./stages

.PHONY: embed-memory
embed-memory: ## peak memory of embed over a million texts against a local endpoint (some minutes)
	EVALSTREAM_TEXTS=$${EVALSTREAM_TEXTS:-1000000} go test -count=1 -timeout 30m -run TestEmbedMemory -v ./cmd/evalstream

fuzz: ## fuzz each target for FUZZTIME (30s; 1000x: so many inputs)
	@targets=$$(grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed -E 's|/[^/]+:func | |' | sort -u); \
	test -n "$$targets" || { echo 'fuzz: no targets' >&2; exit 1; }; \
	while read -r pkg target <&3; do \
		echo "fuzz: $$target in $$pkg for $(FUZZTIME)"; \
		go test -run='^$$' -fuzz="^$$target$$" -fuzztime=$(FUZZTIME) "$$pkg"; \
	done 3<<< "$$targets"

lint: $(LINT) ## check style and common faults; the first run installs the linter into bin/
	go vet -tags docs ./...
	$(LINT) run ./...
	cd topics/kafka/kafkatest && go vet -tags kafka,kcat ./... && $(CURDIR)/$(LINT) run --build-tags kafka,kcat ./...

$(LINT):
	@rm -f bin/golangci-lint*
	GOBIN=$(CURDIR)/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	@mv bin/golangci-lint $@

bench: ## measure each layer, then the whole commands against other programs
	go test -run='^$$' -bench=. -benchmem ./...
	go run ./bench/run $(BENCHFLAGS)

gen: ## write the generated files again
	go generate ./...
	cd topics/kafka/kafkatest && go generate ./...

docs: ## execute the commands of README.md and docs/ and compare their output (UPDATE=1 rewrites it)
	go test -count=1 -tags docs ./docs $(if $(UPDATE),-update)

man: build ## write man pages into bin/man1
	bin/evalstream man bin/man1

metrics-check: ## let promtool and a real Prometheus read a running pipe (slow; installs Debian's prometheus if it is missing)
	.ci/metrics-check

completion-check: ## press TAB in a real bash, zsh and fish (installs Debian's bash-completion, zsh and fish if they are missing)
	.ci/completion-check

cover: ## print the share of statements that the tests reach, by function into cover.out
	go test -coverpkg=./... -coverprofile=cover.out ./...
	@go tool cover -func=cover.out | tail -n 1

.PHONY: tatqa
tatqa: ## evaluate BM25 and hashed vectors on TAT-QA, from the data set's file to a table
	deploy/pipelines/tatqa

# Millrace: one target per thing a developer does. `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GOLANGCI_VERSION := v2.14.0
TOOLS := $(CURDIR)/bin/tools
LINT := $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION)

# One package at a time: the tests start servers of their own and measure time.
TEST_FLAGS ?= -race -p 1 -count=1 -timeout 15m
PKG ?= ./...
FUZZ_TIME ?= 30s
BENCH_FLAGS ?=
RUN_FLAGS ?=

.PHONY: help run build test check lint fuzz mutants bench chaos soak tools clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

build: ## build bin/millrace
	go build -o bin/millrace ./cmd/millrace

run: build ## build, then serve on the embedded engine (RUN_FLAGS="--listen …")
	exec bin/millrace serve $(RUN_FLAGS)

test: tools ## run every test, with the race detector (PKG=./broker/... for some)
	@go build -race ./... # on all cores; the tests then run one package at a time
	go test $(TEST_FLAGS) $(PKG)

check: lint ## formatting, vet, linter, tidy modules
	@unformatted="$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go'))"; \
	if [ -n "$$unformatted" ]; then echo "gofmt these files:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go mod tidy -diff
	go mod verify
	@if [ -f bench/go.mod ]; then set -x; go -C bench vet ./...; go -C bench mod tidy -diff; fi

lint: $(LINT)
	$(LINT) run ./...

# Built from source into the checkout, so that its version is the one pinned
# here, whatever else the machine has.
$(LINT):
	@mkdir -p $(TOOLS)
	@found="$$(command -v golangci-lint || echo "$$(go env GOPATH)/bin/golangci-lint")"; \
	if [ -x "$$found" ] && "$$found" version 2>/dev/null | grep -q "version $(GOLANGCI_VERSION:v%=%) "; then \
		ln -sf "$$found" $@; \
	else \
		echo "installing golangci-lint $(GOLANGCI_VERSION)"; \
		GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION); \
		mv $(TOOLS)/golangci-lint $@; \
	fi

tools:
	@scripts/need-tools

fuzz: ## run every fuzz target for FUZZ_TIME (30s)
	@grep -rl --include='*_test.go' '^func Fuzz' . | sort | while read -r file; do \
		for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' "$$file"); do \
			echo "$$(dirname "$$file") $$target"; \
			go test -run='^$$' -fuzz="^$$target\$$" -fuzztime=$(FUZZ_TIME) "$$(dirname "$$file")" || exit 1; \
		done; \
	done

mutants: tools ## plant each kept bug in a scratch copy: its test must fail (ONLY=name for some)
	go run ./mutants $(if $(ONLY),-only '$(ONLY)')

bench: tools ## measure both engines beside their peers, and what they promise (BENCH_FLAGS=-quick)
	go -C bench run . $(BENCH_FLAGS)

chaos: tools ## the crash and fault tests, in their long form
	MILLRACE_LONG=1 go test -p 1 -count=1 -timeout 60m -v -run 'Kill|Crash|Power|Paused|Frozen|Flush|Moved|Disk|Restart' $(PKG)

soak: tools ## every test in its long form, without the race detector
	MILLRACE_LONG=1 go test -p 1 -count=1 -timeout 120m $(PKG)

clean: ## remove what the targets built
	rm -rf bin

# What can be done with this project; "make" alone lists it. CI runs these targets and nothing else.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

# One set of flags for every build, so that all of them share one cache.
export CGO_ENABLED := 0
export GOFLAGS := -buildvcs=false -trimpath

# Everything that is built, and everything that runs, is below this folder, which git ignores.
STATE := $(CURDIR)/.localstack
BIN := $(STATE)/bin
# The stack of the tests is one of its own: a demo that runs beside them is left alone.
TEST_STATE ?= $(STATE)/test
export TEST_STATE

IMAGE ?= drupdate:dev
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
VERSION_PACKAGE := github.com/drupdate/drupdate/internal/version
LDFLAGS := -s -w -X $(VERSION_PACKAGE).version=$(VERSION) -X $(VERSION_PACKAGE).commit=$(COMMIT)

# The first of twelve ports in a row for the demo and its stack; 0 means the usual ones.
PORTS ?= 0

# The arguments of one go test, for example: make e2e RUN='-run Rollback -v'
RUN ?=
# The release that make histories names its files after.
RECORD ?= $(VERSION)
# Where the race detector is affordable: it needs a C compiler, and a second build of all dependencies.
RACE_PACKAGES ?= ./workflows/...
# Which packages are fuzzed, and how long each test of them.
FUZZ_PACKAGES ?= ./internal/drush ./internal/podexec ./internal/sitejob ./internal/siteimage
FUZZTIME ?= 1m
# How many tests run side by side, of one package or of the whole system. Those that take long mostly wait.
PARALLEL ?= 8
# The fault suite: how many updates, from which draw on, how many of them side by side, and after which time (2h30m) no
# more of them begin.
ROUNDS ?= 8
SEED ?= 1
SITES ?= 8
FOR ?=
# Modules with code of ours, and all scripts.
MODULES := . localstack
SCRIPTS := .ci/run tools/with-stack tools/verify tools/vulncheck $(wildcard deploy/temporal/*.sh deploy/observability/compose/*.sh) internal/sitejob/script.sh internal/podexec/wrapper.sh

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } \
		/^## / { printf "\n%s\n", substr($$0, 4) } \
		/^[a-z0-9-]+:.*## / { printf "  %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

## Try it

.PHONY: demo demo-down up down status
demo: $(BIN)/localstack $(BIN)/simsite $(BIN)/drupdate $(BIN)/demo ## Update six sites on an embedded Kubernetes and Temporal, good and bad, and watch
	@$(BIN)/demo -state $(STATE) -ports $(PORTS) up

demo-down: $(BIN)/localstack $(BIN)/demo ## Stop all that the demo started
	@$(BIN)/demo -state $(STATE) down

up: $(BIN)/localstack $(BIN)/simsite ## Start the embedded stack alone, without drupdate
	@$(BIN)/localstack up --state $(STATE) $(if $(filter-out 0,$(PORTS)),--ports $(PORTS))
	@echo 'Point other programs at it: eval "$$($(BIN)/localstack env --state $(STATE))"'

down: $(BIN)/localstack ## Stop the embedded stack
	@$(BIN)/localstack down --state $(STATE)

status: $(BIN)/localstack ## Show what runs of the embedded stack
	@$(BIN)/localstack status --state $(STATE)

## Build

.PHONY: build image helm
build: $(BIN)/drupdate ## Build .localstack/bin/drupdate, and link it as a plugin of kubectl
	@ln -sf drupdate $(BIN)/kubectl-drupdate
	@ln -sf drupdate $(BIN)/kubectl_complete-drupdate

image: ## Build the container image IMAGE (drupdate:dev)
	docker build -f deploy/Dockerfile --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) -t $(IMAGE) .

helm: $(BIN)/helm ## Build .localstack/bin/helm, and package the charts into .localstack/charts
	@for chart in drupdate-crds drupdate; do $(BIN)/helm package deploy/charts/$$chart --destination $(STATE)/charts; done

## Test

.PHONY: test test-unit replay test-system test-integration e2e fault test-localstack fuzz test-race histories
test: test-unit replay test-system test-localstack ## Run every test: unit, replay, and the whole system on an embedded stack

test-unit: ## Run the tests that need nothing but Go
	go test -timeout 30m -parallel $(PARALLEL) $(RUN) ./...
	cd localstack && go test $(RUN) ./...

replay: | $(BIN) ## Replay the recorded histories against today's workflows
	@go test -count=1 -run Replay -v ./workflows | tee $(STATE)/replay.log | grep -v '^=== '
	@grep -q '^--- PASS: TestRecordedHistoriesReplay' $(STATE)/replay.log || { echo 'no recorded history was replayed' >&2; exit 1; }

test-system: $(BIN)/localstack $(BIN)/simsite $(BIN)/drupdate $(BIN)/helm ## Run the suites integration and e2e on one embedded stack
	@tools/with-stack go test -count=1 -p 1 -parallel $(PARALLEL) -timeout 40m -tags integration,e2e $(RUN) $(call tagged,integration) $(call tagged,e2e)

test-integration: $(BIN)/localstack $(BIN)/simsite ## Run the tests against a real API server
	@tools/with-stack go test -count=1 -p 1 -timeout 20m -tags integration $(RUN) $(call tagged,integration)

e2e: $(BIN)/localstack $(BIN)/simsite $(BIN)/drupdate $(BIN)/helm ## Run the tests of the whole system
	@tools/with-stack go test -count=1 -p 1 -parallel $(PARALLEL) -timeout 40m -tags e2e $(RUN) $(call tagged,e2e)

fault: $(BIN)/localstack $(BIN)/simsite $(BIN)/drupdate $(BIN)/toxiproxy ## Kill and break everything during updates of ROUNDS sites, from the draw SEED on
	@TEST_NODE_PROXY=1 ROUNDS=$(ROUNDS) SEED=$(SEED) SITES=$(SITES) FOR=$(FOR) tools/with-stack go test -count=1 -timeout 48h -tags fault -v $(RUN) ./e2e

test-localstack: $(BIN)/kubebox ## Run the tests of the embedded stack itself
	@cd localstack && LOCALSTACK_STATE=$(STATE) go test -count=1 -timeout 20m -tags integration $(RUN) ./integration/...

fuzz: ## Fuzz every parser of text from outside for FUZZTIME each, one after the other
	@for package in $(FUZZ_PACKAGES); do \
		for target in $$(grep -ho '^func Fuzz[A-Za-z]*' $$package/*_test.go | cut -c6-); do \
			echo "$$package $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -parallel 1 $$package; \
		done; \
	done

test-race: ## Run the tests of RACE_PACKAGES with the race detector; needs a C compiler
	CGO_ENABLED=1 go test -race $(RUN) $(RACE_PACKAGES)

histories: $(BIN)/localstack $(BIN)/simsite $(BIN)/drupdate ## Record the histories of release RECORD for the replay tests
	@mkdir -p workflows/testdata/histories
	@RECORD=$(RECORD) tools/with-stack go test -count=1 -parallel $(PARALLEL) -timeout 40m -tags e2e -run '^TestRecordHistories$$' -v ./e2e

# The packages that have tests behind a build tag. A suite that is missing is an error of go test, and not a success.
tagged = $$(grep -rl --include='*_test.go' --exclude-dir=localstack --exclude-dir=.localstack '^//go:build.*\b$(1)\b' . | xargs -r -n1 dirname | sort -u || echo ./$(1))

## Check

.PHONY: lint fmt vet verify vuln generate manifests
lint: $(BIN)/golangci-lint $(BIN)/workflowcheck ## Run the linters, and check layers of imports and workflows
	@for module in $(MODULES); do echo "golangci-lint in $$module"; (cd $$module && $(BIN)/golangci-lint run --config $(CURDIR)/.golangci.yaml ./...); done
	@echo 'golangci-lint in e2e, with the build tag fault'; $(BIN)/golangci-lint run --build-tags fault ./e2e
	$(BIN)/workflowcheck -config tools/workflowcheck.yaml ./workflows ./worker
	@if command -v shellcheck >/dev/null; then echo shellcheck; shellcheck $(SCRIPTS); else echo 'shellcheck is not installed: skipped' >&2; fi

fmt: $(BIN)/golangci-lint ## Format the code
	@for module in $(MODULES); do (cd $$module && $(BIN)/golangci-lint fmt --config $(CURDIR)/.golangci.yaml); done

vet: ## Run go vet on every module, with every build tag
	go vet -tags integration,e2e,charts ./...
	go vet -tags fault ./e2e
	cd localstack && go vet $$(go list ./... | grep -v /kubebox) # which is Kubernetes, two thousand packages of it

verify: $(BIN)/controller-gen $(BIN)/kustomize $(BIN)/helm ## Check generated files, manifests, charts and docker-compose.yaml
	@BIN=$(BIN) tools/verify

vuln: $(BIN)/govulncheck ## Look for known vulnerabilities; says so where their database cannot be reached
	@BIN=$(BIN) tools/vulncheck

generate: $(BIN)/controller-gen ## Generate deepcopy code from the API types
	$(BIN)/controller-gen object paths=./api/...

manifests: $(BIN)/controller-gen ## Generate the CRDs from the API types
	$(BIN)/controller-gen crd paths=./api/... output:crd:artifacts:config=deploy/crd

## Deploy

.PHONY: deploy undeploy
deploy: $(BIN)/kustomize ## Install drupdate with IMAGE in the cluster of the current kubeconfig
	$(BIN)/kustomize build deploy | sed 's|image: drupdate:dev$$|image: $(IMAGE)|' | kubectl apply --server-side -f -

undeploy: $(BIN)/kustomize ## Remove drupdate from the cluster, but for the CRD: with it every site would go
	$(BIN)/kustomize build deploy | awk 'BEGIN { RS = "---\n"; ORS = "---\n" } !/kind: CustomResourceDefinition/' | kubectl delete --ignore-not-found -f -

## Clean up

.PHONY: clean
clean: ## Stop the embedded stacks and remove their data and logs; built programs stay
	@if [ -x $(BIN)/demo ]; then $(BIN)/demo -state $(STATE) down; fi
	@if [ -x $(BIN)/localstack ]; then for state in $(TEST_STATE) $(STATE); do $(BIN)/localstack down --state $$state --purge; done; fi
	@rm -f $(STATE)/replay.log $(STATE)/demo.lock

# ---- programs -------------------------------------------------------------------------------------------------------

$(BIN):
	@mkdir -p $@

# Go knows best what is out of date, and asking it takes a second.
.PHONY: FORCE
FORCE:

$(BIN)/drupdate: FORCE | $(BIN)
	@[ -x $@ ] || echo 'building drupdate: a few minutes the first time on two cores, seconds afterwards'
	@go build -o $@ -ldflags '$(LDFLAGS)' ./cmd/drupdate
$(BIN)/demo: FORCE | $(BIN)
	@go build -o $@ ./demo
$(BIN)/simsite: FORCE | $(BIN)
	@go build -o $@ -ldflags '-s -w' ./internal/simsite/cmd/simsite
$(BIN)/localstack: $(BIN)/container-init
	@[ -x $@ ] || echo 'building localstack: a few minutes the first time on two cores, seconds afterwards'
	@cd localstack && go build -o $@ ./cmd/localstack
$(BIN)/container-init: FORCE | $(BIN)
	@cd localstack && go build -o $@ -ldflags '-s -w' ./cmd/container-init

# The control plane and Temporal, which localstack builds as it starts.
$(BIN)/kubebox: | $(BIN)/localstack $(BIN)/simsite
	@tools/with-stack true

# Tools, pinned by modules of their own: none of what they need is in go.mod.
$(BIN)/controller-gen: tools/go.mod tools/go.sum | $(BIN)
	@cd tools && go build -o $@ -ldflags '-s -w' sigs.k8s.io/controller-tools/cmd/controller-gen && touch $@
$(BIN)/workflowcheck: tools/go.mod tools/go.sum | $(BIN)
	@cd tools && go build -o $@ -ldflags '-s -w' go.temporal.io/sdk/contrib/tools/workflowcheck && touch $@
$(BIN)/kustomize: tools/kustomize/go.mod tools/kustomize/go.sum | $(BIN)
	@cd tools/kustomize && go build -o $@ -ldflags '-s -w' sigs.k8s.io/kustomize/kustomize/v5 && touch $@
$(BIN)/helm: tools/helm/go.mod tools/helm/go.sum | $(BIN)
	@echo 'building helm: about 3 minutes the first time on two cores'
	@cd tools/helm && go build -o $@ -ldflags '-s -w' helm.sh/helm/v4/cmd/helm && touch $@
$(BIN)/toxiproxy: tools/toxiproxy/go.mod tools/toxiproxy/go.sum | $(BIN)
	@cd tools/toxiproxy && go build -o $@ -ldflags '-s -w' github.com/Shopify/toxiproxy/v2/cmd/server && touch $@
$(BIN)/golangci-lint: tools/lint/go.mod tools/lint/go.sum | $(BIN)
	@echo 'building golangci-lint: about 5 minutes the first time on two cores'
	@cd tools/lint && go build -o $@ -ldflags '-s -w' github.com/golangci/golangci-lint/v2/cmd/golangci-lint && touch $@
$(BIN)/govulncheck: tools/vuln/go.mod tools/vuln/go.sum | $(BIN)
	@cd tools/vuln && go build -o $@ -ldflags '-s -w' golang.org/x/vuln/cmd/govulncheck && touch $@

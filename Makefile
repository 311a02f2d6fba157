# `make` alone lists the targets. Each of them creates what it needs.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The Spark tests share one worker (see tests/conftest.py), so two workers are enough for two cores.
PYTEST := $(BIN)/python -m pytest
WORKERS ?= 2
REPORT_SEED ?= 1
REPORT_PROFILE ?= quick

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(STAMP) ## Create .venv with every engine, Spark and the tools

# Runs again only when the declared or the pinned packages change.
$(STAMP): pyproject.toml constraints.txt $(wildcard tools/*.sh tools/*.py)
	@tools/bootstrap.sh $(VENV)
	@touch $@

.PHONY: demo
demo: $(STAMP) ## Run the main job on real data (DEMO_ARGS="--backend sqlite")
	@$(BIN)/python examples/nycflights $(DEMO_ARGS)

.PHONY: test
test: $(STAMP) ## Lint, types, layers and tests: what CI runs
	@$(MAKE) --no-print-directory --keep-going lint pytest

.PHONY: check
check: test ## The same, under the name that other projects use

.PHONY: lint
lint: ruff format mypy layers ## Lint, format, types and the direction of imports

.PHONY: ruff format mypy layers pytest
ruff: $(STAMP)
	$(BIN)/ruff check

format: $(STAMP)
	$(BIN)/ruff format --check

mypy: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports --no-logo

pytest: $(STAMP)
	$(PYTEST) -n $(WORKERS) --dist loadgroup $(TEST_ARGS)

.PHONY: requirements
requirements: $(STAMP) ## Write the suite's requirements.json from spec/
	$(BIN)/python tools/write_requirements.py

# The support matrix is made from runs, never by hand.
.PHONY: reports
reports: requirements ## Prove the built-in backends; write docs/conformance and docs/backends.md
	$(BIN)/python -m statestores_conformance memory rocksdb leveldb sqlite \
	    --seed $(REPORT_SEED) --profile $(REPORT_PROFILE) \
	    --report 'docs/conformance/{backend}.json' --badge 'docs/conformance/{backend}.svg'
	$(BIN)/python tools/write_support_matrix.py

.PHONY: bench
bench: $(STAMP) ## Run the benchmarks (BENCH_ARGS="--help")
	$(BIN)/python -m statestores_benchmarks $(BENCH_ARGS)

.PHONY: soak
soak: $(STAMP) ## Long kill and Hypothesis runs (an hour or so)
	STATESTORES_SOAK=1 $(PYTEST) -n $(WORKERS) --dist loadgroup --timeout 3600 $(TEST_ARGS)

.PHONY: mutants
mutants: $(STAMP) ## Prove the conformance suite: it has to catch every mutant
	$(BIN)/python -m statestores_mutants --jobs $(WORKERS) --markdown conformance/MUTANTS.md

# An hour or more. The table that it ends with belongs into conformance/README.md.
.PHONY: kills
kills: $(STAMP) ## Kill 1,000 processes for each persistent backend and kind (KILL_ARGS="--kills 100")
	nice $(BIN)/python -m statestores_conformance.kills rocksdb leveldb sqlite $(KILL_ARGS)

.PHONY: clean
clean: ## Remove .venv, caches and build results
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

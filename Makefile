# `make` alone lists the targets. Each of them creates what it needs.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Tests start a thousand processes; where bytecode may not be kept, each compiles everything again.
export PYTHONDONTWRITEBYTECODE :=

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SPARK_CLASSES := $(VENV)/spark-classes.jsa
# Tests wait for the disk and for processes part of the time: two for each of two cores. They are
# forked from what has collected them; the first one has a Spark session (see tests/conftest.py).
PYTEST := $(BIN)/python -m pytest
WORKERS ?= 4
# Where the files of tests lie: in memory if there is plenty, else tests wait for the disk a quarter
# of their time. TEST_TMP=/tmp takes the disk. A PostgreSQL server, which does not run as root, has to
# get through to its own directory there.
TEST_TMP ?= $(shell free=$$(df --output=avail -m /dev/shm 2>/dev/null | tail -n 1); \
	if [ "$${free:-0}" -ge 8192 ]; then echo /dev/shm; else echo "$${TMPDIR:-/tmp}"; fi)
REPORT_SEED ?= 1
REPORT_PROFILE ?= quick
BENCH_VENV := .venv-bench
BENCH_BIN := $(BENCH_VENV)/bin
BENCH_STAMP := $(BENCH_VENV)/.installed
# Not kafka: Quix Streams wants an older confluent-kafka than the runner does.
BENCH_EXTRAS := rocksdb,leveldb,sqlite,postgresql,serdes,arrow,spark,cli,opentelemetry,conformance
DOCS_VENV := .venv-docs
DOCS_BIN := $(DOCS_VENV)/bin
DOCS_STAMP := $(DOCS_VENV)/.installed
BENCH_BUILD := build/benchmarks
ROWS ?= 1000000 10000000
BENCH := $(BENCH_BIN)/python -m statestores_benchmarks
BENCH_REPORT := $(BENCH_BIN)/python -m statestores_benchmarks.report
# By the shell, since make remembers which files there were when it began.
BENCH_RESULTS ?= $$(ls $(BENCH_BUILD)/quick.json $(BENCH_BUILD)/spark.json \
	$(BENCH_BUILD)/kafka.json 2>/dev/null)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(STAMP) ## Create .venv with every engine, Spark and the tools

# Runs again only when the declared or the pinned packages change.
$(STAMP): pyproject.toml constraints.txt $(wildcard tools/*.sh tools/*.py)
	@tools/bootstrap.sh $(VENV)
	@touch $@

# For the tests alone: what a user of the demo would wait for is not needed there.
$(SPARK_CLASSES): $(STAMP) tools/archive_spark_classes.py
	@$(BIN)/python tools/archive_spark_classes.py $@
	@touch $@

.PHONY: demo
demo: $(STAMP) ## Run the main job on real data (DEMO_ARGS="--backend sqlite")
	@$(BIN)/python examples/nycflights $(DEMO_ARGS)

# Types are checked while tests wait for a disk, a broker or a process, which they do often enough:
# `nice` gives the check what is left of two cores. What it says comes at the end.
.PHONY: test
test: $(STAMP) ## Lint, types, layers and tests: what CI runs
	@mkdir -p build; nice $(MAKE) --no-print-directory --keep-going lint > build/lint.txt 2>&1 & \
	lint=$$!; \
	status=0; $(MAKE) --no-print-directory pytest || status=$$?; \
	wait $$lint || status=$$?; cat build/lint.txt; exit $$status

define run_tests
directory=$$(mktemp -d -p $(TEST_TMP) ss.XXXXXX); trap 'rm -rf "$$directory"' EXIT; \
chmod a+x "$$directory"; \
TMPDIR=$$directory STATESTORES_TEST_WORKERS=$(WORKERS) $(PYTEST) $(1)
endef

.PHONY: test-quick
test-quick: $(STAMP) ## The unit tests alone, in a minute or so
	@$(call run_tests,-m unit $(TEST_ARGS))

# What `make test` leaves out repeats for another engine, protocol or server, or with more draws, what
# it shows: docs/decisions/0141-what-a-run-of-the-tests-repeats.md.
.PHONY: test-all
test-all: $(STAMP) ## `make test` with the tests that repeat for more what others show (half as long again)
	@STATESTORES_LONG=1 $(MAKE) --no-print-directory test

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
	@$(BIN)/python tools/docs_programs.py build/docs-programs
	$(BIN)/mypy --config-file tools/docs_mypy.ini --scripts-are-modules build/docs-programs/*.py
	$(BIN)/ruff check --isolated --select F821 --config 'builtins = ["spark"]' build/docs-programs/excerpts

layers: $(STAMP)
	$(BIN)/lint-imports --no-logo

# The unit tests do not need Spark's classes.
pytest: $(STAMP) $(SPARK_CLASSES)
	@$(call run_tests,$(TEST_ARGS))

.PHONY: api
api: $(STAMP) ## Write the list of public names, docs/api.txt
	$(BIN)/python tools/write_public_api.py

.PHONY: pages
pages: $(STAMP) ## Wrap paragraphs of pages that are wider than 100 columns
	@$(BIN)/python tools/wrap_pages.py

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

# The peers want other versions than the tools do: see docs/decisions/0041-benchmarks-with-peers.md.
# A pin of benchmarks/constraints.txt wins over one of the same package in constraints.txt.
$(BENCH_STAMP): pyproject.toml constraints.txt benchmarks/constraints.txt $(wildcard tools/*.sh)
	@mkdir -p $(BENCH_BUILD)
	@awk -F == '!/^#/ && !($$1 in seen) { seen[$$1]; print }' \
	    benchmarks/constraints.txt constraints.txt > $(BENCH_BUILD)/constraints.txt
	@tools/bootstrap.sh $(BENCH_VENV) bench $(BENCH_BUILD)/constraints.txt $(BENCH_EXTRAS)
	@touch $@

# A group that fails costs its own figures: the tables of the others are written, and make fails then.
define measure
	@status=0; $(BENCH) --scale $(1) --json $(BENCH_BUILD)/$(1).json $(BENCH_ARGS) || status=$$?; \
	$(BENCH_REPORT) $(BENCH_BUILD)/$(1).json --markdown $(BENCH_BUILD)/$(1).md --plots $(BENCH_BUILD); \
	exit $$status
endef

.PHONY: bench
bench: $(BENCH_STAMP) ## Measure everything but Spark (10 minutes); tables and plots in build/benchmarks
	$(call measure,quick)

.PHONY: bench-full
bench-full: $(BENCH_STAMP) ## The same with every row and more rounds (an hour)
	$(call measure,full)

.PHONY: bench-spark
bench-spark: $(BENCH_STAMP) ## Measure Spark's readers and stateful operators
	$(BENCH) --spark --json $(BENCH_BUILD)/spark.json $(BENCH_ARGS)

# Skipped by name without a JDK and Maven, which brings Kafka Streams by its coordinates.
.PHONY: bench-kafka
bench-kafka: $(BENCH_STAMP) ## Measure beside Kafka Streams' own stores, in Java (an hour)
	$(BENCH) --kafka-stores --scale full --json $(BENCH_BUILD)/kafka.json $(BENCH_ARGS)

# The S3 server is that of the tests, and so is the environment. Maven brings what s3a:// needs.
.PHONY: bench-objects
bench-objects: $(STAMP) ## Measure a state root on an S3 server (10 minutes)
	$(BIN)/python -m statestores_benchmarks.spark.object_store $(BENCH_ARGS)

.PHONY: bench-fill
bench-fill: $(BENCH_STAMP) ## Measure a store's first 20 million rows beside Parquet (5 minutes)
	$(BENCH_BIN)/python -m statestores_benchmarks.spark.bootstrap $(BENCH_ARGS)

.PHONY: bench-scale
bench-scale: $(BENCH_STAMP) ## Measure single stores of ROWS rows, end to end (a minute a million)
	$(BENCH_BIN)/python -m statestores_benchmarks.large_store $(ROWS)

.PHONY: bench-micro
bench-micro: $(BENCH_STAMP) ## Micro-operations with pytest-benchmark
	$(BENCH_BIN)/python -m pytest -c benchmarks/micro/pytest.ini benchmarks/micro $(BENCH_ARGS)

# Nobody copies numbers by hand: the tables and plots of the documentation come from these files.
.PHONY: bench-publish
bench-publish: $(BENCH_STAMP) ## Write the last results into benchmarks/README.md and docs/benchmarks
	$(BENCH_REPORT) $(BENCH_RESULTS) --into benchmarks/README.md --into docs/benchmarks/README.md \
	    --plots docs/benchmarks

.PHONY: soak
soak: $(STAMP) ## Long kill and Hypothesis runs (an hour or so)
	STATESTORES_SOAK=1 STATESTORES_TEST_WORKERS=$(WORKERS) $(PYTEST) --timeout 3600 $(TEST_ARGS)

# Spark's own warnings of sockets that it left open are not ours to mend.
OLDEST_SPARK := 4.0.0
SPARK ?= 4.1.4
SPARK_TESTS ?= tests/spark
SPARK_BUILD = build/spark-$(SPARK)
SPARK_VENV = .venv-spark-$(SPARK)
.PHONY: try-spark spark-oldest
try-spark: ## Test the Spark part with another PySpark (SPARK=4.1.4)
	@mkdir -p $(SPARK_BUILD)
	@sed 's/^pyspark==.*/pyspark==$(SPARK)/' constraints.txt > $(SPARK_BUILD)/constraints.txt
	@tools/bootstrap.sh $(SPARK_VENV) dev $(SPARK_BUILD)/constraints.txt
	PYSPARK_PYTHON=$(CURDIR)/$(SPARK_VENV)/bin/python $(SPARK_VENV)/bin/python -m pytest \
	    -W ignore::ResourceWarning -W default::pytest.PytestUnraisableExceptionWarning \
	    $(SPARK_TESTS) $(TEST_ARGS)

spark-oldest: ## Test the Spark part with the oldest PySpark that is supported
	@$(MAKE) --no-print-directory try-spark SPARK=$(OLDEST_SPARK)

.PHONY: mutants
mutants: $(STAMP) ## Prove the conformance suite: it has to catch every mutant
	$(BIN)/python -m statestores_mutants --jobs $(WORKERS) --markdown conformance/MUTANTS.md

# Hours. Stopped, it goes on where it was; MUTATION_ARGS="--sample 100" draws some of the mutants.
# Engines are judged as strangers are, by the suite alone; what is above them by all tests near it.
MUTATION_RESULTS ?= build/mutation
MUTATION := nice $(BIN)/python -m statestores_mutation --jobs $(or $(MUTATION_JOBS),2)
MUTATED := query tasks changelog semantics arrow.restoring logged_store
JUDGES := tests/conformance/test_backends.py::TestMemory tests/semantics tests/time_to_live \
	tests/changelog tests/arrow tests/logged_store tests/tasks tests/query tests/reading \
	tests/resharding/test_reshard.py tests/metrics/test_store_metrics.py \
	tests/object_log/tasks/test_object_tasks.py tests/object_log/tasks/test_task_records.py \
	tests/object_log/test_followed_objects.py \
	tests/serdes/test_row_evolution.py
# Where wrong answers hurt most comes first.
DRAWN_FROM := semantics.versioned semantics.retained semantics.expiry semantics.timestamped changelog \
	tasks semantics.key_value arrow.restoring arrow.rows arrow.as_of query semantics.rows \
	semantics.every_kind
.PHONY: mutation
mutation: $(STAMP) ## Change real modules in small ways, and see which tests notice (MUTATION_ARGS)
	@mkdir -p $(MUTATION_RESULTS)
	@for engine in memory sqlite rocksdb leveldb; do \
	    $(MUTATION) statestores_$$engine --suite $$engine \
	        --results $(MUTATION_RESULTS)/$$engine.jsonl --table $(MUTATION_RESULTS)/$$engine.md \
	        $(MUTATION_ARGS) || exit 1; \
	done
	@$(MUTATION) $(addprefix statestores.,$(MUTATED)) $(addprefix --tests ,$(JUDGES)) \
	    --results $(MUTATION_RESULTS)/statestores.jsonl --table $(MUTATION_RESULTS)/statestores.md \
	    $(MUTATION_ARGS)

# An hour of one processor. Stopped, it goes on where it was; MUTATION_SEED=2 draws others.
MUTATION_SEED ?= 18
MUTATION_SAMPLE ?= 50
.PHONY: mutation-sample
mutation-sample: $(STAMP) ## Draw some mutants of each package above the engines, and judge them
	@mkdir -p $(MUTATION_RESULTS)
	@$(MUTATION) $(addprefix statestores.,$(DRAWN_FROM)) $(addprefix --tests ,$(JUDGES)) \
	    --each --sample $(MUTATION_SAMPLE) --seed $(MUTATION_SEED) \
	    --results $(MUTATION_RESULTS)/layers.jsonl --table $(MUTATION_RESULTS)/layers.md \
	    $(MUTATION_ARGS)

# DuckDB plans each query anew, so that the suite takes minutes with it: not a part of every run.
.PHONY: third-party
third-party: $(STAMP) ## Prove the example backends from the wheel, with the profiles quick and full
	STATESTORES_SOAK=1 $(PYTEST) -n 0 --timeout 7200 tests/packaging/test_third_party_backend.py

# An hour or more. The table that it ends with belongs into conformance/README.md.
.PHONY: kills
kills: $(STAMP) ## Kill 1,000 processes for each persistent backend and kind (KILL_ARGS="--kills 100")
	nice $(BIN)/python -m statestores_conformance.kills rocksdb leveldb sqlite $(KILL_ARGS)

# Once its environment is there, no network is needed.
$(DOCS_STAMP): pyproject.toml constraints.txt
	@"$$(tools/find_python.sh)" -m venv --clear $(DOCS_VENV)
	@$(DOCS_BIN)/python -m pip install --quiet --disable-pip-version-check --no-input \
	    -c constraints.txt "pip>=25.1"
	@$(DOCS_BIN)/python -m pip install --quiet --disable-pip-version-check --no-input \
	    -c constraints.txt --group docs
	@touch $@

.PHONY: docs
docs: $(DOCS_STAMP) ## Write the site into build/site
	@$(DOCS_BIN)/python tools/gather_site.py
	@NO_MKDOCS_2_WARNING=1 $(DOCS_BIN)/python -m mkdocs build --quiet --config-file build/mkdocs.yml
	@echo "docs: build/site/index.html"

.PHONY: docs-look
docs-look: $(STAMP) docs ## Open every page of the site in Chromium; pictures in docs/site
	@$(BIN)/python tools/look_at_site.py

# Needs npm and Chromium, and only after a diagram of a page has changed.
MERMAID := build/mermaid/node_modules/mermaid/dist/mermaid.min.js
$(MERMAID):
	npm install --silent --no-audit --no-fund --ignore-scripts --no-save --prefix build/mermaid mermaid@11.17.2

.PHONY: diagrams
diagrams: $(STAMP) $(MERMAID) ## Draw the diagrams of docs that have changed, for the site
	@$(BIN)/python tools/draw_diagrams.py $(MERMAID) $(DRAW_ARGS)

# What of pyarrow pyright does not see (functions that are made at the import) is none of our errors.
.PHONY: docs-types
docs-types: $(STAMP) $(DOCS_STAMP) ## Check the programs of README and docs with pyright
	@$(BIN)/python tools/docs_programs.py build/docs-programs
	@cp tools/docs_pyright.json build/docs-programs/pyrightconfig.json
	@$(DOCS_BIN)/python -m pyright --project build/docs-programs --pythonpath $(BIN)/python

.PHONY: release
release: $(STAMP) ## Build what HEAD is into dist/: sdist, wheel, checksums, SBOM, provenance, an index
	@$(BIN)/python tools/release.py $(RELEASE_ARGS)

# Half an hour for four Pythons, most of it spent downloading; a busy machine takes longer.
.PHONY: try-release
try-release: $(STAMP) ## Install dist/ into bare environments: sdist, each extra alone, the first hour (TRY_ARGS)
	@$(BIN)/python tools/try_release.py $(TRY_ARGS)

.PHONY: clean
clean: ## Remove .venv, caches and build results
	rm -rf $(VENV) $(BENCH_VENV) $(DOCS_VENV) .venv-spark-* build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

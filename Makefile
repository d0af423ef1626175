# Every verb does its own set-up; `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
BENCH_STAMP := $(VENV)/.ready-bench
# The files name everything, and what is used is compiled when it is first used.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile
UV := $(BIN)/uv pip install --quiet --no-deps --python $(BIN)/python
COMPILE := $(BIN)/uv pip compile --quiet --generate-hashes --no-header

# uv takes a fifth of pip's time. It does not read pip's own settings, a mirror for example:
# where it is not to be had or gets nothing, pip does it.
install = $(UV) $(1) || { echo "setup: uv could not; going on with pip" >&2; $(PIP) $(1); }
# Most tests wait for a cluster or a server, so workers may outnumber cores, by one: with
# several more they wait for each other, and deadlines speak of the machine.
WORKERS ?= 3
# Several control planes share the cores then; one that spreads over them only waits for itself.
ONE_EACH := GOMAXPROCS=1

# Every process of a test or a demo would compile the whole product anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo demo-down test suite test-unit e2e lint fix generate manifests verify bench scenarios lock

help: ## list the verbs
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 14

setup: $(STAMP) ## the virtual environment with everything pinned

$(STAMP): pyproject.toml dev/pyproject.toml requirements/setup.txt requirements/dev.txt
	@echo "setup: creating $(VENV) from requirements/dev.txt"
	@rm -f $(STAMP)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --require-hashes -r requirements/setup.txt || echo "setup: no uv for this machine" >&2
	@$(call install,--require-hashes -r requirements/dev.txt)
	@$(call install,--no-build-isolation -e . -e ./dev)
	@touch $(STAMP)

$(BENCH_STAMP): $(STAMP) requirements/bench.txt
	@echo "setup: adding what the benchmarks compare with from requirements/bench.txt"
	@$(call install,--require-hashes -r requirements/bench.txt)
	@touch $(BENCH_STAMP)

demo: setup ## three stories on one cluster: mirror, gateway, environment
	@$(BIN)/windlass dev demo

demo-down: setup ## end what the demo left running
	@$(BIN)/windlass dev demo --down

test: setup ## all that CI runs
	@$(BIN)/windlass dev binaries --node --helm
	@$(MAKE) --no-print-directory lint verify suite

suite: setup
# Reading the tests once spares every worker the same work.
	@$(BIN)/pytest --collect-only -qq >/dev/null 2>&1 || true
	@$(ONE_EACH) $(BIN)/pytest -n $(WORKERS)

e2e: setup ## what needs a node with real pods; as root on Linux
	@$(BIN)/windlass dev binaries --node
	@$(BIN)/pytest -m node

test-unit: setup ## pure tests, seconds
	@$(BIN)/pytest tests/unit tests/property tests/docs

lint: setup ## formatting, types, room borders
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

fix: setup ## repair what a tool can repair
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

generate: setup ## CRDs, RBAC, samples, reference pages
	@$(BIN)/windlass dev generate

manifests: generate ## the same, by the name that operators often give it

verify: setup ## fail where generated files differ from their declarations
	@$(BIN)/windlass dev generate --check

bench: $(BENCH_STAMP) ## ratios, side by side in one run
	@$(BIN)/python -m bench

scenarios: setup ## acceptance scenarios: sentence, tests, results; what has no test
	@$(BIN)/windlass dev binaries --node --helm
	@$(ONE_EACH) $(BIN)/pytest -n $(WORKERS) -q -m scenario --scenarios

lock: setup ## pin the requirements anew
	@$(COMPILE) --output-file requirements/setup.txt requirements/setup.in
	@$(COMPILE) --extra dev --output-file requirements/dev.txt pyproject.toml
	@$(COMPILE) --constraint requirements/dev.txt --output-file requirements/bench.txt requirements/bench.in

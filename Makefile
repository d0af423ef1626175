# Every target does its own setup; `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
BENCH_STAMP := $(VENV)/.ready-bench
# The requirement files name every dependency; modules are compiled on first use.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile
UV := $(BIN)/uv pip install --quiet --no-deps --python $(BIN)/python
COMPILE := $(BIN)/uv pip compile --quiet --generate-hashes --no-header

# uv takes a fifth of pip's time, but does not read pip's settings (a mirror, for example):
# where uv is not available or cannot download, pip is used.
install = $(UV) $(1) || { echo "setup: uv failed; continuing with pip" >&2; $(PIP) $(1); }
# Most tests wait for a cluster or a server, so workers may outnumber cores, by one: with
# several more they wait for each other, and deadlines measure the machine.
WORKERS ?= 3
# Several control planes share the cores then; one that spreads over them only waits for itself.
ONE_EACH := GOMAXPROCS=1

# Every process of a test or a demo would compile the whole product anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo demo-down test suite test-unit e2e lint fix generate manifests verify bench scenarios lock

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 14

setup: $(STAMP) ## create the virtual environment from pinned requirements

$(STAMP): pyproject.toml dev/pyproject.toml requirements/setup.txt requirements/dev.txt
	@echo "setup: creating $(VENV) from requirements/dev.txt"
	@rm -f $(STAMP)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --require-hashes -r requirements/setup.txt || echo "setup: uv is not available for this machine" >&2
	@$(call install,--require-hashes -r requirements/dev.txt)
	@$(call install,--no-build-isolation -e . -e ./dev)
	@touch $(STAMP)

$(BENCH_STAMP): $(STAMP) requirements/bench.txt
	@echo "setup: adding requirements/bench.txt"
	@$(call install,--require-hashes -r requirements/bench.txt)
	@touch $(BENCH_STAMP)

demo: setup ## run three stories on one local cluster: mirror, gateway, environment
	@$(BIN)/windlass dev demo

demo-down: setup ## stop everything the demo left running
	@$(BIN)/windlass dev demo --down

test: setup ## run everything CI runs
	@$(BIN)/windlass dev binaries --node --helm
	@$(MAKE) --no-print-directory lint verify suite

suite: setup
# Reading the tests once spares every worker the same work.
	@$(BIN)/pytest --collect-only -qq >/dev/null 2>&1 || true
	@$(ONE_EACH) $(BIN)/pytest -n $(WORKERS)

e2e: setup ## run the tests that require a node; as root on Linux
	@$(BIN)/windlass dev binaries --node
	@$(BIN)/pytest -m node

test-unit: setup ## run unit, property and docs tests, in seconds
	@$(BIN)/pytest tests/unit tests/property tests/docs

lint: setup ## check formatting, types and import contracts
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

fix: setup ## apply formatting and automatic fixes
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

generate: setup ## generate CRDs, RBAC, samples and reference pages
	@$(BIN)/windlass dev generate

manifests: generate ## alias of generate

verify: setup ## fail if generated files differ from their declarations
	@$(BIN)/windlass dev generate --check

bench: $(BENCH_STAMP) ## run the benchmarks, side by side with alternatives
	@$(BIN)/python -m bench

scenarios: setup ## run and list the acceptance scenarios, with those that have no test
	@$(BIN)/windlass dev binaries --node --helm
	@$(ONE_EACH) $(BIN)/pytest -n $(WORKERS) -q -m scenario --scenarios

lock: setup ## pin the requirements again
	@$(COMPILE) --output-file requirements/setup.txt requirements/setup.in
	@$(COMPILE) --extra dev --output-file requirements/dev.txt pyproject.toml
	@$(COMPILE) --constraint requirements/dev.txt --output-file requirements/bench.txt requirements/bench.in

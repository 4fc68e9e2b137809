# Needs make and Python 3.11 or newer; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST_ARGS ?=
# pip: no notices about itself, no questions.
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input

.DEFAULT_GOAL := help
.PHONY: help install dev test check bench cases sim proof lock build clean

help:  ## this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 16

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: $(PYTHON) is missing or older than 3.11. Name a newer one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(BIN)/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV) || { \
	  echo "error: $(PYTHON) cannot make a virtual environment (on Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; }
	$(PIP) install --quiet --require-hashes -r requirements/dev.txt
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch $@

install: $(STAMP)  ## make .venv and install the locked packages into it

dev: install  ## run the scheduler on this machine
	$(BIN)/reconciler dev

test: install  ## run the whole suite, on SQLite and a PostgreSQL that it starts itself
	$(BIN)/python -m pytest tests -n 2 --dist worksteal $(PYTEST_ARGS)

check: install  ## lint, types, floors, and a dry run of our own jobs.d
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/reconciler validate jobs.d
	$(BIN)/reconcile --dry-run jobs.d

bench: install  ## run the benchmarks (minutes)
	@for file in tests/benchmarks/[!_]*.py; do \
	  module=$$(basename $$file .py); echo "== $$module"; $(BIN)/python -m tests.benchmarks.$$module || exit 1; done

cases: install  ## which cases of tests/cases are proven by which tests
	$(BIN)/python -m tests.cases.report

sim: install  ## play one seed of the simulation again: make sim SEED=7 [STEPS=1,5] [MUTANT=…]; without SEED, SEEDS=1000
	$(BIN)/python -m tests.protocol.simulation $(if $(SEED),--seed $(SEED)) $(if $(STEPS),--steps $(STEPS)) \
	  $(if $(SEEDS),--seeds $(SEEDS)) $(if $(MUTANT),--mutant $(MUTANT))

proof: install  ## the long forms of the tests
	RECONCILER_PROOF=1 $(BIN)/python -m pytest tests -m "e2e or proof" $(PYTEST_ARGS)

UV_LOCK = $(BIN)/uv --quiet pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

lock:  ## write requirements/*.txt anew from pyproject.toml (UPGRADE=--upgrade takes newer releases)
	@test -x $(BIN)/uv || $(MAKE) install
	$(UV_LOCK) $(UPGRADE) --extra postgres --extra holidays -o requirements/run.txt
	$(UV_LOCK) $(UPGRADE) --extra dev -o requirements/dev.txt

build: install  ## the wheel, in dist/
	$(BIN)/python -m build --wheel --no-isolation

clean:  ## remove what make and the checks made
	rm -rf $(VENV) dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

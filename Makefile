# Everything a newcomer needs. `make help` lists it; each target first sets up what it uses.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.covey-installed
JOBS ?= 2# tests at a time
PYTEST := $(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup test test-long demo check docs format bench lab clean

help: ## say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv and install Covey with its tools; nothing to do when that was done

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: Covey needs Python 3.11 or newer and '$(PYTHON)' is not; try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; \
	  exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	$(BIN)/covey compile
	@touch $@

test: setup ## run the tests, and say which took longest
	$(PYTEST) --durations 12 --durations-min 5

test-long: setup ## run all tests, the long ones too, with many more random examples
	COVEY_HYPOTHESIS_PROFILE=long $(PYTEST) -m 'long or not long'

demo: setup ## see a network of real brokers at work and planned anew, in less than three minutes
	$(BIN)/covey demo

check: setup ## formatting, lint, types, layers and import cycles
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict
	$(BIN)/lint-imports
	$(BIN)/python checks/import_cycles.py

docs: setup ## build the documents as a site, build/site; `python -m http.server --directory build/site` shows it
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

format: setup ## rewrite the sources in our format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup ## measure every part beside another way to do the same, and how costs grow, in ten minutes
	$(BIN)/covey bench all

lab: setup ## compute the papers' figures and claims at their own sizes, which takes hours; it goes on where it stopped
	$(BIN)/covey lab run all --scale paper
	$(BIN)/covey lab scoreboard
	$(BIN)/covey lab report
	$(BIN)/covey lab document --out docs/papers.md
	$(BIN)/covey lab document --paper S --out docs/comparison.md

clean: ## remove the environment and all caches
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The two commands of the README, `make demo` and `make test`, set up by themselves.
# PYTHON=python3.12 chooses the interpreter; pip reads its own PIP_… variables.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq install -c constraints.txt
DEMO := .ldm/demo

.PHONY: help setup demo test clean
.DEFAULT_GOAL := help

help:
	@echo "make setup   create $(VENV) and install ldm with everything it can use"
	@echo "make demo    build a memory from the shipped episodes, refine it, evaluate before and after"
	@echo "make test    lint, types, import layers and all tests"
	@echo "make clean   remove $(VENV), the demo's files and caches"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "ldm needs Python 3.11 or newer; name one: make setup PYTHON=python3.12" >&2; exit 1; }
	@echo "setup: 1/3 torch, into $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) torch setuptools
	@echo "setup: 2/3 the packages that ldm builds on"
	@$(PIP) hatchling editables
	@echo "setup: 3/3 ldm"
	@$(PIP) --no-build-isolation -e '.[all,dev]'
	@touch $(STAMP)
	@echo "setup: done, try $(BIN)/ldm doctor"

demo: setup
	@$(BIN)/ldm build-memory data/trajectories/alfworld --rebuild --memory $(DEMO)/memory
	@$(BIN)/ldm refine --env alfworld --split demo_explore --memory $(DEMO)/memory \
	  --runs $(DEMO)/runs
	@$(BIN)/ldm eval --env alfworld --split demo_test --agent ldm --generation 0,newest \
	  --control random --memory $(DEMO)/memory --runs $(DEMO)/runs

test: export OMP_NUM_THREADS := 1
test: export TOKENIZERS_PARALLELISM := false
test: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest --cov

clean:
	rm -rf $(VENV) $(DEMO) build dist htmlcov .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

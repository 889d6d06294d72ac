# Every target sets itself up: a virtual environment in .venv, made anew only when pyproject.toml
# changes. Needed on the machine: make, and Python 3.11 or newer.

PYTHON ?= python3
WORKERS ?= 2
PYTEST_ARGS ?=
ARGS ?=
ONLY ?=
SEEDS ?= 1000
SEED ?=
JOBS ?= $(shell nproc 2>/dev/null || echo 1)

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
CODE = $(wildcard src tests tools bench examples docs_src)

export PIP_ROOT_USER_ACTION := ignore

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast check check-static tidy format mutants sweep simulate bench docs clean

help:
	@echo "make demo          the story, with real processes and a real database (ARGS=... is passed on)"
	@echo "make test          every test that this machine can run"
	@echo "make test-fast     the tests that are not slow"
	@echo "make check         format, lint, types, tidy, fast tests"
	@echo "make check-static  format, lint, types"
	@echo "make format        write the format and the lint's safe fixes"
	@echo "make mutants       plant bugs one by one, and see that a test finds each (ONLY=id, WORKERS=2)"
	@echo "make sweep         kill real processes at every point of a payment's life, and count (ARGS=...)"
	@echo "make simulate      simulated worlds with faults in them (SEEDS=1000, JOBS=2; SEED=n: one, traced)"
	@echo "make bench         measure against the floor and the peers"
	@echo "make docs          write the generated pages anew"
	@echo "make clean         remove what the targets made"

# A virtual environment that works is kept; one that is broken is made anew.
define make_venv
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	echo "placet needs Python 3.11 or newer, and '$(PYTHON)' is" \
	     "$$($(PYTHON) --version 2>&1 || true). Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) || { \
	echo "'$(PYTHON) -m venv' failed. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
endef

$(VENV)/.stamp: pyproject.toml
	$(make_venv)
	$(PIP) -e '.[openai]'
	@touch $@

$(VENV)/.stamp-dev: pyproject.toml
	$(make_venv)
	$(PIP) -e '.[dev]'
	@touch $(VENV)/.stamp $@

demo: $(VENV)/.stamp
	@$(BIN)/placet demo $(ARGS)

test: $(VENV)/.stamp-dev
	$(BIN)/python -m pytest -n $(WORKERS) $(PYTEST_ARGS)

test-fast: $(VENV)/.stamp-dev
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow" $(PYTEST_ARGS)

check-static: $(VENV)/.stamp-dev
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy --strict $(CODE)

tidy: $(VENV)/.stamp-dev
	$(BIN)/python -m pytest -q tests/test_tidy.py

check: check-static tidy test-fast

format: $(VENV)/.stamp-dev
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

mutants: $(VENV)/.stamp-dev
	$(BIN)/python tools/mutants.py --workers $(WORKERS) $(addprefix --only ,$(ONLY))

sweep: $(VENV)/.stamp-dev
	$(BIN)/python tools/crash_sweep.py --workers $(WORKERS) $(ARGS)

simulate: $(VENV)/.stamp-dev
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) --jobs $(JOBS) $(addprefix --seed ,$(SEED)) $(ARGS)

bench: $(VENV)/.stamp-dev
	$(BIN)/python -m bench $(ARGS)

docs: $(VENV)/.stamp-dev
	$(BIN)/python tools/generate.py $(ARGS)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

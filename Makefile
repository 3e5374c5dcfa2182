# polypath: everything a developer or a first user types. `make` alone prints this list.
PYTHON ?= python3
VENV ?= .venv
SEEDS ?= 3
PIP_ARGS ?=
PYTEST_ARGS ?=
JOBS ?= 2

PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --disable-pip-version-check -c constraints.txt $(PIP_ARGS)
# One thread per test process: small models run fastest that way, and idle threads must not spin.
THREADS := OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE TOKENIZERS_PARALLELISM=false

.DEFAULT_GOAL := help
.PHONY: help quickstart demo test fuzz check lint format constraints index wheel clean
.DELETE_ON_ERROR:

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "Variables: PYTHON=$(PYTHON) VENV=$(VENV) SEEDS=$(SEEDS) PIP_ARGS= (e.g. an index with CPU-only torch)"

# One seed is a first look: half the steps, in a directory of its own.
SHORT := $(if $(filter 1,$(SEEDS)),-o train.steps=60 --output runs/quickstart-first)

quickstart: $(VENV)/.installed-run ## Install into .venv, then show diversity collapse and its remedy (SEEDS=1: a first look)
	$(VENV)/bin/polypath train quickstart --seeds $(SEEDS) $(SHORT)

demo: $(VENV)/.installed-run ## The same from recorded rollouts, in seconds
	$(VENV)/bin/polypath demo

test: $(VENV)/.installed-dev ## Run the test suite (what CI runs)
	$(THREADS) $(PY) -m pytest -n $(JOBS) $(PYTEST_ARGS)

fuzz: $(VENV)/.installed-dev ## The property tests on new draws (the suite repeats the same ones)
	$(THREADS) $(PY) -m pytest -n $(JOBS) --hypothesis-profile=default $(PYTEST_ARGS) $$(grep -rlE '^@given' tests)

lint: $(VENV)/.installed-dev ## Linters, formatter, types and layer contracts
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

check: lint test ## Everything that CI runs

format: $(VENV)/.installed-dev ## Format the code and sort imports
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

index: $(VENV)/.installed-dev ## Rebuild the static index of registered functions
	$(PY) -m polypath.core.index

constraints: $(VENV)/.installed-dev ## Pin the versions of this environment
	@head -1 constraints.txt > constraints.tmp
	@$(PY) -m pip freeze --exclude-editable --exclude polypath | sed 's/+cpu$$//' >> constraints.tmp
	@mv constraints.tmp constraints.txt

wheel: $(VENV)/.installed-dev ## Build the wheel into dist/
	$(PY) -m pip wheel --quiet --no-deps --wheel-dir dist .

clean: ## Remove caches and builds, not the environment or runs
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is renewed only when what it depends on changes, so running a target again installs nothing.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "polypath needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 | head -1)."; \
	  echo "Name another one: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot create virtual environments (the venv or ensurepip module is missing)."; \
	  echo "On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-run: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing polypath into $(VENV) (torch first; some minutes the first time)"
	@$(PIP) torch
	@$(PIP) -e '.[train,tasks,measure,report]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing polypath and its development tools into $(VENV) (torch first; some minutes the first time)"
	@$(PIP) torch
	@$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.installed-run

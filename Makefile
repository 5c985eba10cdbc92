# pipec. `make` lists the targets; each sets up what it needs.

VENV   ?= .venv
PYTHON ?= python3
PIP     = $(VENV)/bin/python -m pip --disable-pip-version-check --quiet
WORKERS ?= 2
# Tests start pipec in processes of its own, which would compile its modules anew: what they are compiled to is kept.
export PYTHONDONTWRITEBYTECODE =
# Who runs what, and in which order: tests/shared.py.
SPREAD  = -n $(WORKERS) --dist loadgroup --no-loadscope-reorder
ORDER  ?= $(shell date +%Y%m%d)
READY   = $(VENV)/.ready
QUICK   = tests/errors tests/golden tests/checks tests/kir tests/sema tests/diag tests/project --ignore tests/project/test_packaging.py \
          --ignore tests/errors/test_renaming.py

.DEFAULT_GOAL := help
.PHONY: help setup run quick test unit whole check format golden fuzz bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The stamp is older than pyproject.toml when the dependencies may have changed.
$(READY): pyproject.toml
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade pip
	$(PIP) install --editable '.[test]'
	touch $@

setup: $(READY) ## create .venv with pipec (editable) and everything the tests need

run: setup ## check, compile and simulate examples/gemm.pipe and compare it with NumPy
	$(VENV)/bin/pipec run examples/gemm.pipe

quick: setup ## ruff and the tests that a change most likely breaks, within a minute
	$(VENV)/bin/ruff check .
	$(VENV)/bin/python -m pytest -q $(SPREAD) $(QUICK)

test: check unit ## everything that must pass: ruff, mypy and all tests

unit: setup ## all tests (WORKERS=2 processes; PYTEST="-k name" chooses)
	$(VENV)/bin/python -m pytest $(SPREAD) $(PYTEST)

# With the types of another system's modules: what exists on Linux alone must stand behind a test of the platform.
whole: setup ## all tests with every case of the families of which `make test` takes samples
	$(VENV)/bin/python -m pytest $(SPREAD) --whole-matrix $(PYTEST)

check: setup ## ruff and mypy
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/python tools/typecheck.py linux win32

format: setup ## mend what ruff can mend
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

golden: setup ## rewrite the golden files from what the compiler says now; look at the diff
	$(VENV)/bin/python -m pytest -q tests --update-golden

fuzz: setup ## random programs, others each day (FUZZ="--count 5000 --seed 7 NAME"), and all tests in another order (ORDER=seed)
	$(VENV)/bin/python tests/fuzz/run.py $(FUZZ)
	$(if $(FUZZ),,$(VENV)/bin/python -m pytest -q $(SPREAD) --shuffle $(ORDER))

bench: setup ## time compiler and simulator (and Triton's compiler where installed) into benchmarks/results
	$(VENV)/bin/python benchmarks/compiling/compile.py
	$(VENV)/bin/python benchmarks/simulator/sim.py
	$(VENV)/bin/python benchmarks/compiling/examples.py

clean: ## remove .venv, caches and build folders
	rm -rf $(VENV) build dist pipec.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Two commands for users: `make demo` and `make test`. Each sets up all it needs, in .venv.
# Also: `make bench` (measurements), `make format`, `make clean`.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info)' 2>/dev/null && echo $$p && break; done)
VENV := .venv
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip install --quiet --disable-pip-version-check

.PHONY: demo test checks lint types imports unit coverage bench format clean

demo: $(VENV)/installed
	@$(RUN) -m tether.cli.demo

# Two at a time, so that the tests and their run for coverage share two cores.
test: $(VENV)/installed-dev
	@$(MAKE) --no-print-directory -j2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) checks
	@echo "make test: lint, types, import direction, tests and coverage all passed"

checks: lint types imports unit coverage

lint: $(VENV)/installed-dev
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .

types: $(VENV)/installed-dev
	@$(RUN) -m mypy

imports: $(VENV)/installed-dev
	@$(VENV)/bin/lint-imports --no-cache

# Unit and property tests, the examples in docstrings, and every code block of README and docs.
unit: $(VENV)/installed-dev
	@$(RUN) -m pytest tests src/tether --doctest-modules -rs

# The same code with the JIT off, so that coverage sees inside the kernels.
coverage: $(VENV)/installed-dev
	@NUMBA_DISABLE_JIT=1 HYPOTHESIS_PROFILE=interpreted $(RUN) -m coverage run -m pytest tests -m "not compiled"
	@$(RUN) -m coverage report

bench: $(VENV)/installed-bench
	@$(RUN) benchmarks/run.py $(if $(QUICK),--quick)

format: $(VENV)/installed-dev
	@$(RUN) -m ruff check --fix .
	@$(RUN) -m ruff format .

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage build dist tether-demo tether-reproduction

$(RUN):
	@test -n "$(PYTHON)" || { echo "Tether needs Python 3.11 or newer with venv and pip; none was found. Name one with: make PYTHON=/path/to/python"; exit 1; }
	@echo "setting up $(VENV) with $(PYTHON) (once) …"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(RUN)
	@echo "installing tether …"
	@$(PIP) --editable .
	@touch $@

$(VENV)/installed-dev: pyproject.toml | $(RUN)
	@echo "installing tether and what its tests need …"
	@$(PIP) --editable ".[dev]"
	@touch $@ $(VENV)/installed

$(VENV)/installed-bench: pyproject.toml | $(RUN)
	@echo "installing tether and what its benchmarks need …"
	@$(PIP) --editable ".[bench]"
	@touch $@ $(VENV)/installed

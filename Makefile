# Two commands for users: `make demo` and `make test`. Each sets up all it needs, in .venv.
# Also: `make coverage` (which lines the tests reach), `make docs` (the site), `make bench` (measurements), `make test-random` (fresh random examples), `make format`, `make clean`.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info)' 2>/dev/null && echo $$p && break; done)
VENV := .venv
RUN := $(VENV)/bin/python
# Bytecode is made when a module is first imported: of what is installed, most never is.
PIP := $(RUN) -m pip install --quiet --disable-pip-version-check --no-compile
# Kept for the next process, whatever the environment says: each would compile all modules again.
export PYTHONDONTWRITEBYTECODE =
CORES ?= $(shell $(RUN) -c 'import os; print(max(1, min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)))' 2>/dev/null || echo 2)

# The tests that exercise the kernels: run once more with the JIT off, so that coverage sees inside them.
KERNELS := tests/kernels tests/counterfactual/test_gumbel.py tests/influence/test_rules.py $(wildcard tests/plan/test_planning*.py) tests/plan/test_sweep.py tests/plan/test_uncertain.py

.PHONY: demo test kernels lint types imports modules modules-of-tests unit coverage test-random docs bench format clean

demo: $(VENV)/installed
	@$(RUN) -m tether.cli.demo

# Each says what it does. The kernels need no more than the package: they are compiled on one core while, on another, what
# the tests need is installed, the rest is checked and all modules are imported once. Otherwise every process of the tests
# would compile the same kernels and the same modules.
test: $(VENV)/installed
	@$(MAKE) --no-print-directory -j 2 kernels lint types imports modules-of-tests modules
	@$(MAKE) --no-print-directory unit
	@echo "make test: lint, types, import direction and tests all passed"

lint: $(VENV)/installed-dev
	@echo "lint …"
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .

types: $(VENV)/installed-dev
	@echo "types …"
	@$(RUN) -m mypy

imports: $(VENV)/installed-dev
	@echo "import direction …"
	@$(VENV)/bin/lint-imports --no-cache

# The sources are named, as the package is installed once more beside this.
kernels: $(VENV)/installed
	@echo "compiling the kernels …"
	@PYTHONPATH="$(CURDIR)/src" $(RUN) tests/compile_kernels.py

# What cannot be imported, the tests say.
COLLECT := $(RUN) -m pytest --collect-only -qq -p no:cacheprovider
modules: $(VENV)/installed-dev
	@echo "importing all modules …"
	@$(COLLECT) src/tether --doctest-modules > /dev/null || true

modules-of-tests: $(VENV)/installed-dev
	@echo "importing all tests …"
	@$(COLLECT) tests --doctest-modules > /dev/null || true

# Unit and property tests, the examples in docstrings, and every code block of README and docs; each once.
unit: $(VENV)/installed-dev
	@echo "tests, on $(CORES) cores …"
	@$(RUN) -m pytest tests src/tether --doctest-modules -rs -n $(CORES) --dist worksteal

# Not part of `make test`, as tracing takes longer than the tests: fails where less than 95 % is reached.
coverage: $(VENV)/installed-dev $(VENV)/installed-coverage
	@$(RUN) -m pytest tests src/tether --doctest-modules -n $(CORES) --dist worksteal --cov --cov-report= --cov-fail-under=0
	@echo "the kernels' own tests once more, interpreted …"
	@NUMBA_DISABLE_JIT=1 HYPOTHESIS_PROFILE=interpreted $(RUN) -m pytest $(KERNELS) -m "not compiled" -n $(CORES) --dist worksteal --cov --cov-append --cov-report= --cov-fail-under=0
	@$(RUN) -m coverage report

# Not part of `make test`: other random models each time. A failure prints how to have it again.
test-random: $(VENV)/installed-dev
	@HYPOTHESIS_PROFILE=random $(RUN) -m pytest tests -n $(CORES) --dist worksteal

docs: $(VENV)/installed-docs
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict --quiet
	@echo "the documentation is in site/: open site/index.html"

bench: $(VENV)/installed-bench
	@$(RUN) benchmarks/run.py $(if $(QUICK),--quick)

format: $(VENV)/installed-dev
	@$(RUN) -m ruff check --fix .
	@$(RUN) -m ruff format .

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage build dist site tether-demo tether-reproduction

# The newest pip finds what to install in half the time of the one that comes with older Pythons.
$(RUN):
	@test -n "$(PYTHON)" || { echo "Tether needs Python 3.11 or newer with venv and pip; none was found. Name one with: make PYTHON=/path/to/python"; exit 1; }
	@echo "setting up $(VENV) with $(PYTHON) (once) …"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade pip

# What is installed, by the extra that names it: `installed` is the package with its explorer, which `make demo` names.
$(VENV)/installed: pyproject.toml | $(RUN)
	@echo "installing tether …"
	@$(PIP) --editable ".[explorer]"
	@touch $@

$(VENV)/installed-%: pyproject.toml | $(VENV)/installed
	@echo "installing what [$*] names …"
	@$(PIP) --editable ".[$*]"
	@touch $@

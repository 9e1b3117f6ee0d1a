# Two commands for users: `make demo` and `make test`. Each sets up all it needs, in .venv.
# Also: `make coverage` (which lines the tests reach), `make docs` (the site), `make bench` (measurements), `make test-random` (new random examples), `make test-oldest` and `make test-newest` (other versions of the dependencies), `make test-storm` (compared with Storm), `make fuzz` (damaged files), `make format`, `make clean`.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info)' 2>/dev/null && echo $$p && break; done)
VENV := .venv
RUN := $(VENV)/bin/python
# No bytecode at installation: most of the installed modules are never imported. The others get it when they are first imported.
PIP := $(RUN) -m pip install --quiet --disable-pip-version-check --no-compile
# Bytecode is kept for the next process, whatever the environment says. Otherwise each process would compile all modules again.
export PYTHONDONTWRITEBYTECODE =
CORES ?= $(shell $(RUN) -c 'import os; print(max(1, min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)))' 2>/dev/null || echo 2)

# The tests that exercise the kernels: run once more with the JIT off, so that coverage sees inside them.
KERNELS := tests/kernels tests/counterfactual/test_gumbel.py tests/influence/test_rules.py $(wildcard tests/plan/test_planning*.py) tests/plan/test_backward.py tests/plan/test_sweep.py tests/plan/test_uncertain.py

.PHONY: demo test kernels lint types imports modules modules-of-tests unit coverage test-random test-oldest test-newest test-storm fuzz docs bench format clean

demo: $(VENV)/installed
	@$(RUN) -m tether.cli.demo

# Each target prints what it does. Two jobs run side by side. One compiles the kernels, for which the package is enough. The
# other installs what the tests need, runs the checks and imports all modules once. Without this, every process of the tests
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

# PYTHONPATH names the sources, because the other job installs the package again at the same time.
kernels: $(VENV)/installed
	@echo "compiling the kernels …"
	@PYTHONPATH="$(CURDIR)/src" $(RUN) tests/compile_kernels.py

# A failure is ignored here: the tests report what cannot be imported.
COLLECT := $(RUN) -m pytest --collect-only -qq -p no:cacheprovider
modules: $(VENV)/installed-dev
	@echo "importing all modules …"
	@$(COLLECT) src/tether src/tether_reproduce --doctest-modules > /dev/null || true

modules-of-tests: $(VENV)/installed-dev
	@echo "importing all tests …"
	@$(COLLECT) tests --doctest-modules > /dev/null || true

# Unit and property tests, the examples in docstrings, and every code block of README and docs; each once.
unit: $(VENV)/installed-dev
	@echo "tests, on $(CORES) cores …"
	@$(RUN) -m pytest tests src/tether src/tether_reproduce --doctest-modules -rs -n $(CORES) --dist worksteal

# Not part of `make test`, because tracing takes longer than the tests. It fails if the tests reach less than 95 % of the lines.
coverage: $(VENV)/installed-dev $(VENV)/installed-coverage
	@$(RUN) -m pytest tests src/tether src/tether_reproduce --doctest-modules -n $(CORES) --dist worksteal --cov --cov-report= --cov-fail-under=0
	@echo "the kernels' own tests once more, interpreted …"
	@NUMBA_DISABLE_JIT=1 HYPOTHESIS_PROFILE=interpreted $(RUN) -m pytest $(KERNELS) -m "not compiled" -n $(CORES) --dist worksteal --cov --cov-append --cov-report= --cov-fail-under=0
	@$(RUN) -m coverage report

# Not part of `make test`: other random models each time. A failure prints how to reproduce it.
test-random: $(VENV)/installed-dev
	@HYPOTHESIS_PROFILE=random $(RUN) -m pytest tests -n $(CORES) --dist worksteal

# Not part of `make test`: the tests with the oldest versions that pyproject.toml allows, and with the newest there are, each
# in an environment of its own that is made anew. TESTS names some of them: make test-oldest TESTS=tests/io
TESTS ?= tests src/tether src/tether_reproduce --doctest-modules
test-oldest test-newest: test-%:
	@echo "the $* versions of all dependencies …"
	@$(PYTHON) -m venv --clear $(VENV)-$*
	@$(VENV)-$*/bin/python -m pip install --quiet --upgrade pip
	@$(PYTHON) tests/oldest_versions.py > $(VENV)-$*/oldest.txt
	@$(VENV)-$*/bin/python -m pip install --quiet --no-compile $(if $(findstring oldest,$*),--constraint $(VENV)-$*/oldest.txt) --editable ".[dev]"
	@$(VENV)-$*/bin/python -m pytest $(TESTS) -rs -n $(CORES) --dist worksteal

# Not part of `make test`, because Storm has no wheel for every system: what Storm itself answers, and reads, and writes. In an
# environment of its own.
STORM = $(shell grep -rl --include=*.py "stormpy" tests 2>/dev/null)
test-storm:
	@$(PYTHON) -m venv $(VENV)-storm
	@$(VENV)-storm/bin/python -m pip install --quiet --no-compile --only-binary stormpy "stormpy>=2.0" --editable ".[dev]"
	@$(VENV)-storm/bin/python -m pytest $(STORM) -rs -n $(CORES) --dist worksteal

# Not part of `make test`: changes files of every format at random, for SECONDS seconds, and lists crashes, tracebacks and
# answers that changed without a word. SEED is printed, and repeats a run.
SECONDS ?= 180
fuzz: $(VENV)/installed-dev
	@$(RUN) tests/fuzz/files.py --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

docs: $(VENV)/installed-docs $(VENV)/installed-dev
	@$(RUN) benchmarks/screenshots.py
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict --quiet
	@echo "the documentation is in site/: open site/index.html"

bench: $(VENV)/installed-bench
	@$(RUN) benchmarks/run.py $(if $(QUICK),--quick)

format: $(VENV)/installed-dev
	@$(RUN) -m ruff check --fix .
	@$(RUN) -m ruff format .

clean:
	rm -rf $(VENV) $(VENV)-oldest $(VENV)-newest $(VENV)-storm .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage build dist site tether-demo tether-reproduction

# The newest pip resolves the dependencies in half the time of the pip that comes with older Pythons.
$(RUN):
	@test -n "$(PYTHON)" || { echo "Tether needs Python 3.11 or newer with venv and pip; none was found. Name one with: make PYTHON=/path/to/python"; exit 1; }
	@echo "setting up $(VENV) with $(PYTHON) (once) …"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade pip

# One target per extra: `installed-docs` installs the extra `docs`. `installed` is the package with its explorer, which `make demo` mentions.
$(VENV)/installed: pyproject.toml src/tether_start.py | $(RUN)
	@echo "installing tether …"
	@$(PIP) --editable ".[explorer]"
	@touch $@

$(VENV)/installed-%: pyproject.toml | $(VENV)/installed
	@echo "installing what [$*] names …"
	@$(PIP) --editable ".[$*]"
	@touch $@

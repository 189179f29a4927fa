# make serve and make test do everything on a fresh machine with Python 3.11-3.13 and make.

VENV := .venv
BIN := $(VENV)/bin
TORCH ?= auto
DATA ?= ../shared/data
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	>/dev/null 2>&1 && echo $$p && break; done)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help serve test test-slow test-gpu check format train evaluate bench docker clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 14

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 (with its venv module) is needed and none was found; set PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/serve.stamp: pyproject.toml scripts/install_torch.py | $(BIN)/python
	$(BIN)/python scripts/install_torch.py $(TORCH)
	$(PIP) -e .
	@touch $@

$(VENV)/develop.stamp: $(VENV)/serve.stamp
	$(PIP) -e '.[test,check]'
	@touch $@

serve: $(VENV)/serve.stamp  ## set up and serve on port 8000 (settings: VERSO_*, see python -m app --help)
	$(BIN)/python -m app

test: $(VENV)/develop.stamp  ## set up and run the tests
	$(BIN)/python -m pytest --cov --cov-report=term

test-slow: $(VENV)/develop.stamp  ## the tests that take minutes
	$(BIN)/python -m pytest -m slow

test-gpu: $(VENV)/develop.stamp  ## the tests that need an NVIDIA GPU
	$(BIN)/python -m pytest -m gpu

check: $(VENV)/develop.stamp  ## format, lint and types
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m ruff check .
	$(BIN)/python -m mypy app model scripts tests

format: $(VENV)/develop.stamp  ## bring the code into its format
	$(BIN)/python -m ruff format .
	$(BIN)/python -m ruff check --fix .

train: $(VENV)/serve.stamp  ## train the translator that ships (DATA=folder; hours; goes on where it stopped)
	$(BIN)/python -m model train --config configs/verso-en-de.yaml --data $(DATA)

evaluate: $(VENV)/serve.stamp  ## score the translator that ships (DATA=folder)
	$(BIN)/python -m model evaluate --test $(DATA)/eval/tatoeba-test-v2020-07-28

docker:  ## build and serve with Docker
	docker compose up --build

clean:  ## remove the environment
	rm -rf $(VENV) *.egg-info

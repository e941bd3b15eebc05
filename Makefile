# Every target sets itself up: a virtual environment in .venv with what it needs from the package index.
PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.installed
RELEASE ?= llama-cpp-python==latest
# Optional, and without what it depends on: that is torch, of which only its own Python package makes use.
XGRAMMAR := xgrammar==0.2.9 apache-tvm-ffi==0.1.15.post2

.PHONY: help setup audit run test test-extended test-browser lint types bench check-patches fuzz sanitize clean

help:
	@echo 'make audit            build the newest llama-cpp-python release, audit it, write reports/'
	@echo 'make run              the same for every release in builds.yaml'
	@echo 'make test             the ordinary tests; builds two releases on first use'
	@echo 'make test-extended    tests that need other builds, or long'
	@echo 'make test-browser     the page reports/index.html in a headless browser'
	@echo 'make lint types       ruff; mypy'
	@echo 'make bench            speed, as ratios measured side by side; what walks see'
	@echo 'make check-patches    the patches for upstream: their functions exhaustively, upstream tests'
	@echo 'make fuzz             20,000 mutants through our GGUF reader, then coverage-guided ones'
	@echo 'make sanitize         the same files through ggml-base with sanitizers (RELEASE=...)'
	@echo 'make clean            remove .venv and caches of tools; builds stay in LLAMA_TRACKER_CACHE'

setup: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "llama-tracker needs Python 3.11 or newer; this one is " + sys.version.split()[0])'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(XGRAMMAR) || \
	  echo 'xgrammar cannot be had here: the comparison with it is left out'
	touch $(STAMP)

audit: setup
	$(BIN)/llama-tracker run llama-cpp-python==latest --audit grammar

run: setup
	$(BIN)/llama-tracker run

test: setup
	$(BIN)/python -m pytest

test-extended: setup
	$(BIN)/python -m pytest -m extended

test-browser: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[browser]'
	$(BIN)/python -m pytest -m browser

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup
	$(BIN)/mypy

bench: setup
	$(BIN)/python -m bench
	$(BIN)/python -m bench.shares
	$(BIN)/python -m bench.coverage

check-patches: setup
	$(BIN)/python -m patches.check

fuzz: setup
	$(BIN)/llama-tracker gguf --fuzz full
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	$(BIN)/llama-tracker gguf --fuzz guided

sanitize: setup
	$(BIN)/llama-tracker gguf $(RELEASE) --sanitize

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

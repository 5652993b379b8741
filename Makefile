# Every target installs what it needs in .venv, once, from constraints.txt.
PYTHON ?= python3
PIP_FLAGS ?=
WORKERS ?= 2
# The folders whose tests are the quickest for what they hold; the others start models, servers, browsers or processes.
QUICK := $(addprefix tests/,nodes agents channels datasets monitors prompts played) tests/test_words.py tests/test_repository.py
BIN := .venv/bin
# Compiled files are written whatever the environment says: each process of the tests would compile everything again.
export PYTHONDONTWRITEBYTECODE :=
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
UV := .venv/uv/bin/uv
# pip's settings of indexes, as uv takes them: uv reads no pip.conf.
FOR_UV := s/\\n/ /g; /find-links/s/ /,/g; s/^[^=]*\.index-url=/export UV_INDEX_URL=/p; \
	s/^[^=]*\.extra-index-url=/export UV_EXTRA_INDEX_URL=/p; s/^[^=]*\.find-links=/export UV_FIND_LINKS=/p
# uv takes half as long as pip, shows what it does, and goes on after an interruption; where it cannot install, pip does.
INSTALL = { eval "$$($(PIP) config list | sort -r | sed -n "$(FOR_UV)")"; \
	test -x $(UV) || $(PIP) install --quiet $(PIP_FLAGS) --target .venv/uv uv; \
	$(UV) pip install --python $(BIN)/python --compile-bytecode --index-strategy unsafe-best-match $(PIP_FLAGS) \
	--constraint constraints.txt --editable $(1); } || \
	{ echo "uv cannot install here: pip does it"; $(PIP) install $(PIP_FLAGS) --constraint constraints.txt --editable $(1); }
INPUTS := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: help debate demo test test-newest test-quick test-all test-real test-real-short check docs bench

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

debate: .venv/core.stamp ## Run a debate of two agents that each know a part of the answer, on the bundled model
	$(BIN)/python cli.py debate --sample split/3 --protocol cipher --rounds 2

demo: .venv/core.stamp ## Download a small real model, and run a debate of two agents that each know one fact on it
	$(BIN)/python cli.py models pull smollm2
	$(BIN)/python cli.py debate --sample facts/10 --model smollm2 --rounds 2 --temperature 0

test: .venv/test.stamp ## Run the tests that every change must pass; without bubblewrap, chromium or postgresql some are skipped
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --max-worker-restart 2 --dist loadfile -m "not slow and not gpu and not network and not real"

test-newest: ## Run the tests once against the newest releases within our bounds, in an environment of their own (.venv-newest)
	$(PYTHON) -m venv .venv-newest
	.venv-newest/bin/python -m pip --disable-pip-version-check install --quiet --upgrade $(PIP_FLAGS) --editable '.[test]'
	OMP_NUM_THREADS=1 .venv-newest/bin/python -m pytest -n $(WORKERS) --max-worker-restart 2 --dist loadfile -m "not slow and not gpu and not network and not real"

test-quick: .venv/test.stamp ## Run the quickest tests, in less than a minute, while editing
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile -m "not slow and not gpu and not network and not real" $(QUICK)

test-real: .venv/test.stamp ## Download a small real model and run the tests on it; they are skipped if it is not available
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/real -m real

test-real-short: .venv/test.stamp ## Run the real-model tests that take less than a minute
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/real -m "real and not slow"

test-all: .venv/test.stamp ## Run all tests: also slow ones, those on a real model, and those for a GPU if there is one
	-$(BIN)/python cli.py models pull smollm2
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --max-worker-restart 2 --dist loadfile -m "not network"

check: .venv/test.stamp ## Check lint, format, types and import layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/mypy tests examples
	$(BIN)/lint-imports

docs: .venv/docs.stamp ## Build the pages of docs/ as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

bench: .venv/test.stamp ## Compare speed with the libraries' own methods, on the bundled and on a real model (half an hour)
	$(BIN)/python -m benchmarks
	$(BIN)/python cli.py models pull smollm2
	$(BIN)/python -m benchmarks --model smollm2 --repeats 3

# A stamp is touched last, so that an interrupted installation starts again.
.venv/core.stamp: $(INPUTS) | .venv/bin/python
	@echo "Setting up .venv from constraints.txt, once: 0.3 GB to download (3 GB if torch comes with CUDA), 1.3 GB on the disk ..."
	@$(call INSTALL,.)
	@touch $@

.venv/test.stamp: $(INPUTS) | .venv/bin/python
	@echo "Setting up .venv with the test tools, Lucene and its Java, once: 0.9 GB to download (4 GB if torch comes with CUDA), 3.1 GB on the disk ..."
	@$(call INSTALL,".[test]")
	@touch .venv/core.stamp $@

.venv/docs.stamp: $(INPUTS) | .venv/bin/python
	@echo "Setting up .venv with the tools that build the pages, once: 0.1 GB more than for a debate ..."
	@$(call INSTALL,".[docs]")
	@touch .venv/core.stamp $@

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null || \
	{ echo "Python 3.11, 3.12 or 3.13 is needed, and $(PYTHON) is $$($(PYTHON) --version 2>&1 | head -n 1); name another: make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv .venv

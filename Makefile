# SPDX-License-Identifier: Apache-2.0
# make compare: the demo that fits this machine. make test: what CI runs.

PYTHON ?= python3
CONFIG ?=
OUT ?=
VENV := .venv
BIN := $(VENV)/bin
UV_VERSION := 0.13.9
# uv does not read pip's settings: it is told to trust whom the system trusts, and of a folder of wheels that pip knows.
UV := UV_SYSTEM_CERTS=$${UV_SYSTEM_CERTS:-1} $(if $(PIP_FIND_LINKS),UV_FIND_LINKS="$(PIP_FIND_LINKS)" )$(BIN)/uv --quiet

.PHONY: setup compare test test-vllm test-containers lint fmt lock clean

setup: $(VENV)/.ready

$(VENV)/.ready: configs/tool.txt pyproject.toml Makefile
	@echo "making the tool's environment in $(VENV) (about 20 s)" >&2
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed, set PYTHON=" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@$(UV) pip sync --compile-bytecode --python $(BIN)/python configs/tool.txt
	@$(UV) pip install --no-deps --python $(BIN)/python --editable .
	@touch $@

compare: setup
	@$(BIN)/bakeoff compare $(CONFIG) $(if $(OUT),--out $(OUT))

test: setup lint
	@$(BIN)/pytest

test-vllm: setup
	@$(BIN)/pytest -m vllm

test-containers: setup
	@$(BIN)/pytest -m containers

lint: setup
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy

fmt: setup
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

# Compiles the pinned files anew from pyproject.toml and configs/environments/*.in.
COMPILE := pip compile --no-emit-index-url --no-annotate --no-header
lock:
	$(UV) $(COMPILE) --universal --python-version 3.11 --extra dev pyproject.toml -o configs/tool.txt
	cd configs/environments && for name in llamacpp vllm-cpu vllm-cuda; do \
	  { grep '^# [a-z-]*:' $$name.in; \
	    ../../$(BIN)/uv --quiet $(COMPILE) --python-version $$(sed -n 's/^# python: //p' $$name.in) \
	      --override $$name.overrides $$name.in; } > $$name.part && mv $$name.part $$name.txt; done

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

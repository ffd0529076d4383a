# Everything sets itself up: on a fresh machine with Python 3.11 or later, `make demo` and `make test` are all there is to type.

PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help demo test lint mutants .venv

help:
	@echo "make demo     install into .venv and read a real capture"
	@echo "make test     install, lint, types, import contracts, tests"
	@echo "make lint     the same without the tests"
	@echo "make mutants  break the code in known ways; each break must turn its test red"

.venv: .venv/installed

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: .venv/installed
	$(BIN)/zmtpscope read captures/patterns/pubsub.pcap

lint: .venv/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest

mutants: .venv/installed
	$(BIN)/python -m tests.mutants

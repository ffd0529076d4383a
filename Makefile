# `make demo` and `make test` need no preparation on a machine with Python 3.11 or later.

PYTHON ?= python3
BIN := .venv/bin
# Stamp files. VENV names the Python of .venv, so that another Python recreates it. DEV: packages for tests.
VENV := .venv/with-$(notdir $(PYTHON))
DEV := $(VENV)-dev
# COMPILED: the extension modules are newer than their sources and than build_compiled.py
COMPILED := $(VENV)-compiled
SOURCES := build_compiled.py $(shell find zmtpscope -name '*_compiled.p[xy][xd]')
# Tests whose result could differ without compiled code: property P20 (docs/seams.md), vectors, goldens and captures
IN_PYTHON := tests/zmtp tests/capture/test_records.py tests/capture/test_headers.py \
  tests/dissect/test_carrying_rows.py \
  tests/dissect/test_row_contents.py tests/payloads/test_json.py tests/export/test_json_lines.py \
  tests/export/test_row_lines.py tests/test_golden.py \
  tests/test_captures.py tests/test_compiled.py
# Without --no-compile, pip takes half as long again; Python compiles modules when it first imports them
PIP := $(BIN)/pip --quiet --disable-pip-version-check install --no-compile

# Parts of the suite, the longest first, after all others; each process collects only its own tests. Many tests wait, so
# there are more jobs than cores.
PARTS := dissect spark cli tui export live
PARALLEL := --jobs=4 --keep-going $(if $(filter output-sync,$(.FEATURES)),--output-sync)

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint mutants fuzz bench profile .venv $(PARTS:%=tests/%) tests/others tests/python

help:
	@echo "make demo     install zmtpscope into .venv and read a capture"
	@echo "make test     install the packages for tests (with Spark, a JDK and tcpdump), then lint and run the quick tests"
	@echo "make test-all the same with all tests at full profile"
	@echo "make lint     style, types and import contracts"
	@echo "make mutants  apply each known fault to the code; its test must fail (QUICK=1: the quick profile)"
	@echo "make fuzz     alter captures at random and check the invariants (MINUTES=10, SEED=0)"
	@echo "make bench    measure beside tshark and a C program (most of an hour; QUICK=1: some minutes)"
	@echo "make profile  measure the time of each stage, into benchmarks/results/stages.md"
	@echo "For another Python: make test PYTHON=python3.13"

.venv: $(DEV) $(COMPILED)

$(VENV): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("zmtpscope needs Python 3.11 or later, but $(PYTHON) is %d.%d. Name another: make ... PYTHON=python3.12" % sys.version_info[:2])'
	$(PYTHON) -m venv --clear .venv
	touch $@

$(COMPILED): $(VENV) $(SOURCES)
	$(PIP) --editable .
	touch $@

$(DEV): $(VENV)
	$(PIP) --editable '.[dev]'
	touch $@ $(COMPILED)

demo: $(COMPILED)
	$(BIN)/zmtpscope read captures/patterns/pubsub.pcap

lint: $(DEV) $(COMPILED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# Tests start hundreds of processes that share bytecode files, so this variable of the caller is cleared.
test test-all: export PYTHONDONTWRITEBYTECODE =
test: $(DEV) $(COMPILED)
	tests/install_tools.sh
	$(MAKE) $(PARALLEL) tests/others tests/python $(PARTS:%=tests/%) lint

test-all: export FULL := --full
test-all: test

tests/others:
	$(BIN)/pytest $(FULL) $(PARTS:%=--ignore=tests/%)

# test_cost.py counts executed lines of Python; its bounds are those of the compiled form
tests/python:
	ZMTPSCOPE_COMPILED=0 $(BIN)/pytest $(FULL) $(if $(FULL),--ignore tests/dissect/test_cost.py tests/dissect) $(IN_PYTHON)

$(PARTS:%=tests/%):
	$(BIN)/pytest $(FULL) $@

mutants: $(DEV) $(COMPILED)
	$(BIN)/python -m tests.mutants $(if $(QUICK),--quick)

fuzz: $(DEV) $(COMPILED)
	$(BIN)/python -m tests.fuzz --minutes $(or $(MINUTES),10) --seed $(or $(SEED),0)

bench: $(DEV) $(COMPILED)
	$(BIN)/python -m benchmarks.run $(if $(QUICK),--quick)

profile: $(DEV) $(COMPILED)
	$(BIN)/python -m benchmarks.stages

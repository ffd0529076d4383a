# Everything sets itself up: on a fresh machine with Python 3.11 or later, `make demo` and `make test` are all there is to type.

PYTHON ?= python3
BIN := .venv/bin
# which Python .venv was made with, so that another one makes it anew; what reading needs, and what tests need besides
VENV := .venv/with-$(notdir $(PYTHON))
DEV := $(VENV)-dev
# what is compiled is compiled anew when it, or how that is done, has changed
COMPILED := $(VENV)-compiled
SOURCES := build_compiled.py $(shell find zmtpscope -name '*_compiled.p[xy][xd]')
# seam P20, vectors, goldens and captures: the tests whose result could differ without compiled code
IN_PYTHON := tests/zmtp tests/capture/test_records.py tests/capture/test_headers.py \
  tests/dissect/test_carrying_rows.py \
  tests/dissect/test_row_contents.py tests/payloads/test_json.py tests/export/test_json_lines.py \
  tests/export/test_row_lines.py tests/test_golden.py \
  tests/test_captures.py tests/test_compiled.py
# pip leaves bytecode to the first import of a module, which saves a third of an installation
PIP := $(BIN)/pip --quiet --disable-pip-version-check install --no-compile

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint mutants fuzz bench profile .venv

help:
	@echo "make demo     install what reading needs into .venv, and read a real capture"
	@echo "make test     install the rest (Spark, a JDK and tcpdump, too), lint, types, import contracts, quick tests"
	@echo "make test-all the same with all tests, at full profile"
	@echo "make lint     the same without the tests"
	@echo "make mutants  break the code in known ways; each break must turn its test red (QUICK=1: that of make test)"
	@echo "make fuzz     change captures at random and check what must hold (MINUTES=60, 10 if not given; SEED=7)"
	@echo "make bench    measure beside tshark and a walk in C (most of an hour; QUICK=1: some minutes)"
	@echo "make profile  write benchmarks/results/stages.md: where the time goes"
	@echo "With another Python than python3: make test PYTHON=python3.13"

.venv: $(DEV) $(COMPILED)

$(VENV): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or later is needed, and $(PYTHON) is %d.%d: name another, make ... PYTHON=python3.12" % sys.version_info[:2])'
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

# Tests start hundreds of processes, which share the bytecode of what they import, whatever the environment says.
test test-all: export PYTHONDONTWRITEBYTECODE =
test: lint
	tests/install_tools.sh
	$(BIN)/pytest
	ZMTPSCOPE_COMPILED=0 $(BIN)/pytest $(IN_PYTHON)

# test_cost.py counts lines of Python, of which the compiled form takes fewer
test-all: lint
	tests/install_tools.sh
	$(BIN)/pytest --full
	ZMTPSCOPE_COMPILED=0 $(BIN)/pytest --full --ignore tests/dissect/test_cost.py tests/dissect $(IN_PYTHON)

mutants: $(DEV) $(COMPILED)
	$(BIN)/python -m tests.mutants $(if $(QUICK),--quick)

fuzz: $(DEV) $(COMPILED)
	$(BIN)/python -m tests.fuzz --minutes $(or $(MINUTES),10) --seed $(or $(SEED),0)

bench: $(DEV) $(COMPILED)
	$(BIN)/python -m benchmarks.run $(if $(QUICK),--quick)

profile: $(DEV) $(COMPILED)
	$(BIN)/python -m benchmarks.stages

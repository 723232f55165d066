# One command a task; `make` alone lists them. What a task needs is installed into $(VENV) first, and again only when
# pyproject.toml or constraints.txt changed.
#
#   make demo                                       # on a fresh machine
#   make demo ARGS=--slow-data                      # the same with a planted bottleneck
#   make test ARGS="tests/sinks -x"                 # some of the tests
#   make check PYTHON=python3.12 VENV=.venv-3.12    # another interpreter, beside the first environment

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:  # some tests measure time

VENV ?= .venv
GPU_PYTHON ?= python3
RUN := $(VENV)/bin/python

ifndef PYTHON
PYTHON := $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
endif

# The environments that packages are built in are pinned too: older pips read the first name, newer ones the second.
PIP := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 \
	$(RUN) -m pip install -qq

.PHONY: help demo test check format slow gpu bench promises docs constraints clean

help:
	@awk -F ':[^#]*## ' '/^[a-z]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

demo: $(VENV)/.demo  ## train a small model, watch it, and see how to look at its run file
	@$(RUN) examples/demo.py $(ARGS)
	@echo && $(VENV)/bin/stepscope show output/demo 2>/dev/null
	@printf '%s\n' '' 'Look at it yourself:' \
		'  $(VENV)/bin/stepscope show output/demo      this summary; --markdown to paste it somewhere' \
		'  $(VENV)/bin/stepscope tail output/demo      its lines, live while it runs' \
		'  $(VENV)/bin/stepscope list output           all runs, newest first' \
		'  $(VENV)/bin/python -c "import stepscope; print(stepscope.read_run(\"output/demo\").series(\"loss\"))"'

test: $(VENV)/.dev  ## run the everyday tests
	@$(RUN) -m pytest $(ARGS)

check: $(VENV)/.dev  ## what CI calls: format, lint, types, tests, the examples and tables of the docs
	@$(VENV)/bin/ruff format --check . || { echo "not formatted: make format"; exit 1; }
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy
	@$(MAKE) --no-print-directory test

format: $(VENV)/.dev  ## format the code and mend what lint can mend
	@$(VENV)/bin/ruff format .
	@$(VENV)/bin/ruff check --fix .

slow: $(VENV)/.dev  ## run the slow tests: kills by the hundred, other environments, the built package
	@$(RUN) -m pytest -m slow $(ARGS)

gpu:  ## run the tests and figures that need a GPU, with that machine's own torch: GPU_PYTHON=…
	@$(GPU_PYTHON) tests/gpu/run.py

bench: $(VENV)/.dev  ## measure the costs beside those of other trackers, and print them with their bars
	@$(RUN) -m benchmarks $(ARGS)

promises: $(VENV)/.dev  ## count the documents' promises: kept, and waiting
	@$(RUN) -m tests.promises.report

docs: $(VENV)/.dev  ## write the generated parts of docs/ from the records
	@$(RUN) docs/generate.py

constraints:  ## renew constraints.txt: the newest versions that fit, torch as it is
	rm -rf build/constraints && $(PYTHON) -m venv build/constraints
	grep ^torch== constraints.txt > build/torch.txt
	PIP_CONSTRAINT=build/torch.txt build/constraints/bin/pip install --quiet '.[dev]' hatchling
	{ grep '^#' constraints.txt; build/constraints/bin/pip freeze --all --exclude stepscope --exclude pip \
		| sed 's/+cpu$$//' | grep -vE '^(nvidia-[^m]|cuda|triton)'; } > build/constraints.txt
	mv build/constraints.txt constraints.txt

clean:  ## remove caches, builds and the environment; runs in output/ stay
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -not -path './.*' -prune -exec rm -rf {} +

# $(VENV)/.demo holds what the demo needs, $(VENV)/.dev everything: the extras of these names in pyproject.toml.
$(VENV)/.%: pyproject.toml constraints.txt | $(RUN)
	@echo "installing what '$*' needs into $(VENV) (the first time this takes a while)"
	@$(PIP) --editable '.[$*]'
	@touch $@

$(RUN):
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: make … PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; \
		sys.exit(f"Python 3.11 or newer is needed; $(PYTHON) is {v[0]}.{v[1]}" if v < (3, 11) else 0)'
	@$(PYTHON) -m venv $(VENV)

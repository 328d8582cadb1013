# Two commands do everything: `make demo` and `make test`. Both set up what they need.
VENV ?= .venv
PY := $(VENV)/bin/python
HANSE := $(VENV)/bin/hanse
STAMP := $(VENV)/.installed
export PYTHONHASHSEED := 0

.PHONY: setup test check demo bench faults study lock clean help

help:            ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

$(STAMP): requirements.lock pyproject.toml
	test -x $(PY) || python3 -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(STAMP)

setup: $(STAMP)  ## a virtual environment with what the lock file pins

test: setup      ## every test that a change must pass
	$(PY) -m pytest -n 2

check: setup     ## style and types
	$(VENV)/bin/ruff check src tests benchmarks
	$(VENV)/bin/ruff format --check src tests benchmarks
	$(VENV)/bin/mypy

demo: setup      ## the main job, live: strategies side by side, scopes, a replay, faults; plots and pages in out/demo
	$(HANSE) simulate run --topology cities --nodes 25 --workload hiking --clients 500 --plots out/demo/strategies
	$(HANSE) scopes show examples/olympic-paris/characterisation.toml --picture out/demo/olympic-paris.svg
	$(HANSE) simulate replay tests/data/disgb-1k
	$(HANSE) simulate faults --seeds 25
	$(HANSE) study mudebs --quick --out out/demo/mudebs
	@echo
	@echo "Look at out/demo: strategies/messages.png, strategies/latency.png, olympic-paris.svg and the page mudebs/index.html."
	@echo "Next: hanse simulate run --help, hanse study disgb, and README.md."

bench: setup     ## speed, as ratios against something measured in the same run
	$(PY) benchmarks/bench_replay.py
	$(PY) benchmarks/bench_matching.py

faults: setup    ## a thousand random scenarios under faults, for every strategy
	$(HANSE) simulate faults --seeds 1000

study: setup     ## the papers' experiments at full size
	$(HANSE) study mudebs --out out/mudebs
	$(HANSE) study disgb --out out/disgb

lock:            ## pin the newest versions again (needs pip-tools)
	pip-compile --quiet --extra dev --generate-hashes --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --allow-unsafe --strip-extras --no-header --output-file requirements.lock pyproject.toml

clean:           ## remove what the targets made
	rm -rf $(VENV) out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

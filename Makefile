# Two commands do everything: `make demo` and `make test`. Both set up what they need.
VENV ?= .venv
PY := $(VENV)/bin/python
HANSE := $(VENV)/bin/hanse
STAMP := $(VENV)/.installed
export PYTHONHASHSEED := 0
# images often forbid Python to keep what it has compiled: each of the many processes here would compile all of it again
unexport PYTHONDONTWRITEBYTECODE
SECONDS ?=
# scripts of their own, some of the same name: each folder's types are checked by themselves
EXAMPLES := agents hiking olympic-paris smart-port
# the MQTT broker that tests and benchmarks use; got quietly, with or without root, if the machine has none
with_mosquitto = @mkdir -p out && MOSQUITTO=$$(sh tools/mosquitto.sh 2>out/mosquitto.log) || { cat out/mosquitto.log >&2; exit 1; }; export MOSQUITTO;

.PHONY: test-long kill pipeline-clusters pipeline-kill setup test check demo tour conformance bench faults faults-live fuzz study lock clean help

help:            ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

$(STAMP): requirements.lock pyproject.toml
	test -x $(PY) || python3 -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(STAMP)

setup: $(STAMP)  ## a virtual environment with what the lock file pins

test: setup      ## every test that a change must pass
	$(with_mosquitto) $(PY) -m pytest -n 3

test-long: setup ## those that take a minute and more each
	$(with_mosquitto) HANSE_LONG=1 HANSE_TEST_S_MAX=1200 $(PY) -m pytest -n 2 -m long

check: setup     ## style and types
	$(VENV)/bin/ruff check src tests benchmarks examples
	$(VENV)/bin/ruff format --check src tests benchmarks examples
	$(VENV)/bin/mypy
	for example in $(EXAMPLES); do MYPYPATH=examples/$$example $(VENV)/bin/mypy examples/$$example/*.py || exit 1; done

demo: setup      ## a small city, live, with a page to watch it: until Ctrl-C, or make demo SECONDS=60
	$(PY) examples/smart-port/city.py $(if $(SECONDS),--seconds $(SECONDS))

tour: setup      ## everything else, one after the other: a node and its devices, sharing, air quality, strategies, hikers, scopes, a replay, faults
	$(PY) examples/smart-port/port.py --seconds $(or $(SECONDS),8)
	$(PY) examples/smart-port/share.py --seconds $(or $(SECONDS),8)
	$(PY) examples/bordeaux-air/run.py --days 14 --out out/tour
	$(PY) examples/bordeaux-air/pipeline.py --days 3 --from 2004-11-22 --out out/tour/pipeline
	$(HANSE) simulate run --topology cities --nodes 25 --workload hiking --clients 500 --plots out/tour/strategies
	$(PY) examples/hiking/run.py --out out/tour
	$(PY) examples/olympic-paris/run.py --out out/tour
	$(HANSE) simulate replay tests/data/disgb-1k
	$(HANSE) simulate faults --seeds 25
	$(HANSE) study mudebs --quick --out out/tour/mudebs
	@echo
	@echo "Look at out/tour: bordeaux-air.png, pipeline/index.html, strategies/messages.png, strategies/latency.png, hiking.png, scopes.svg and the page mudebs/index.html."

# The suite and its runner are somebody else's: SUITE is a checkout of it, RUNNER a program that takes --suite, --url and groups of
# tests, CONTEXTS a JSON file that says for each URL of a context which file has it. Two of the tests name the port 9090.
CONFORMANCE_PORT ?= 9090
conformance: setup ## the ETSI test suite: make conformance SUITE=checkout RUNNER=path CONTEXTS=map.json [ONLY="group ..."]
	@test -n "$(SUITE)" && test -n "$(RUNNER)" && test -n "$(CONTEXTS)" || \
		{ echo "usage: make conformance SUITE=checkout RUNNER=path CONTEXTS=map.json [ONLY=\"group ...\"]"; exit 2; }
	@$(PY) -c 'import socket; socket.create_server(("127.0.0.1", $(CONFORMANCE_PORT))).close()' 2>/dev/null || \
		{ echo "port $(CONFORMANCE_PORT) is in use: stop what listens there, or set CONFORMANCE_PORT"; exit 1; }
	@data=$$(mktemp -d); \
	$(HANSE) serve --port $(CONFORMANCE_PORT) --data "$$data" --no-mqtt --contexts "$(CONTEXTS)" >"$$data/log" 2>&1 & node=$$!; \
	trap 'kill $$node 2>/dev/null; wait $$node; rm -rf "$$data"' EXIT; \
	until $(PY) -c 'import urllib.request as r; r.urlopen("http://127.0.0.1:$(CONFORMANCE_PORT)/readyz", timeout=5)' 2>/dev/null; do \
		kill -0 $$node 2>/dev/null || { cat "$$data/log"; exit 1; }; \
		sleep 0.2; \
	done; \
	"$(RUNNER)" --suite "$(SUITE)" --url "http://127.0.0.1:$(CONFORMANCE_PORT)/ngsi-ld/v1" $(RUNNER_OPTIONS) $(ONLY)

bench: setup     ## speed, as ratios against something measured in the same run
	$(PY) benchmarks/bench_replay.py
	$(PY) benchmarks/bench_matching.py
	$(PY) benchmarks/bench_subscriptions.py
	$(PY) benchmarks/bench_quality.py
	$(PY) benchmarks/bench_policies.py
	$(with_mosquitto) $(PY) benchmarks/bench_node.py
	$(PY) benchmarks/bench_federation.py
	$(PY) benchmarks/bench_spark_simulation.py
	$(PY) benchmarks/bench_pipeline.py
	$(PY) benchmarks/bench_lake.py

kill: setup      ## kill -9 under load, 20 times: nothing acknowledged is lost
	HANSE_TEST_S_MAX=3600 HANSE_KILLS=20 $(PY) -m pytest -s tests/node/test_kill.py

pipeline-clusters: setup ## the same pipeline on this machine, on executors, on a standalone cluster of two workers, and by Spark Connect
	HANSE_LONG=1 HANSE_TEST_S_MAX=3600 HANSE_CLUSTERS=1 $(PY) -m pytest -s tests/pipeline/test_clusters.py

pipeline-kill: setup ## kill -9 of a pipeline's driver, its nodes and its lake's compaction, 40 times: everything once
	HANSE_LONG=1 HANSE_TEST_S_MAX=3600 HANSE_KILLS=40 HANSE_SEED=$${HANSE_SEED:-1} $(PY) -m pytest -s tests/pipeline/test_kill_pipeline.py

faults: setup    ## a thousand random scenarios under faults, for every strategy
	$(HANSE) simulate faults --seeds 1000

faults-live: setup ## seven real nodes that are killed and cut off from each other, for every strategy, against the oracle
	HANSE_TEST_S_MAX=3600 HANSE_ROUNDS=6 $(PY) -m pytest -s tests/federation/test_live_oracle.py

fuzz: setup      ## ten minutes of requests and device messages that nobody has seen before
	HANSE_TEST_S_MAX=3600 HANSE_FUZZ_S=120 $(PY) -m pytest -s tests/node/http/test_fuzz.py tests/node/mqtt/test_device_fuzz.py

study: setup     ## the papers' experiments at full size
	$(HANSE) study mudebs --out out/mudebs
	$(HANSE) study disgb --out out/disgb
	$(HANSE) study disgb --engine spark --out out/disgb-large
	$(with_mosquitto) $(HANSE) study comdex --out out/comdex
	$(HANSE) study income --out out/income

lock:            ## pin the newest versions again (needs pip-tools)
	pip-compile --quiet --extra connect --extra dashboard --extra dev --extra pipeline --generate-hashes --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --allow-unsafe --strip-extras --no-header --output-file requirements.lock pyproject.toml

clean:           ## remove what the targets made
	rm -rf $(VENV) out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

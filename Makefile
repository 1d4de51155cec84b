# Thin on purpose: each target names the program that does the work.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin

DEMOS ?= amqtt nats nats3
# More files at a time than a small machine has cores: most of them wait for servers and boards.
# Fewer for the quick ones: each process collects all tests.
PARALLEL := -n 6 --dist loadfile --no-loadscope-reorder
# The tests start Python often: it keeps its cache of modules, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: bad-days bench bench-collector bench-diff bench-export bench-level5 \
	bench-live bench-pipeline bench-report bench-rounds bench-series bench-silver \
	bench-sources bench-start bench-store bench-year brokers build clean cluster-test commands \
	demo demo-seeds format fuzz help home-assistant kills kills-foreign kills-readers \
	kills-run kills-store kills-tables kit-cuts lint live-pictures loaded-runs lock \
	lock-packages mixed \
	mutants power-loss program-heap prove quick refusals rp2 setup size size-diff soak \
	soak-collector test test-cpython test-long test-micropython types update-cuts venv \
	virtual-days

help:  ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | \
		sed -E 's/^([a-z0-9-]+):[^#]*## ?/\1\t/' | expand -t 20

setup:  ## all that tests need: .venv, MicroPython, mosquitto, Java, Chromium; without root
	@$(PYTHON) tools/setup.py

venv:
	@$(PYTHON) tools/setup.py --demo

# nats comes with the tests' packages
DEMO_NEEDS := $(if $(or $(findstring nats,$(BROKER)),$(STORE)),setup,venv)
demo: $(DEMO_NEEDS)  ## boards to tables, disasters; SEED=n LEVEL=5 BROKER=amqtt|nats|nats3 STORE=s3
	@$(if $(STORE),$(BIN)/python host_tests/system/demo_on_bucket.py,$(BIN)/outpost demo)

brokers: setup  ## brokers beside mosquitto: tests, what they drop, DEMOS="amqtt nats nats3"
	@BROKERS=all $(BIN)/python -m pytest -m "" -q host_tests/system/test_other_brokers.py \
		host_tests/tools/trying/simulate/test_simulate_broker.py
	@$(BIN)/python host_tests/bench/broker_drops.py
	@for broker in $(DEMOS); do \
		$(BIN)/outpost demo --broker $$broker --out build/demo-$$broker || exit 1; done

test: setup lint types test-cpython test-micropython  ## all checks

QUICK_FOLDER := host_tests/firmware/outpost
quick: setup  ## the library under CPython and 64-bit MicroPython, no long files: 40 s
	@QUICK=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile $(QUICK_FOLDER)
	@$(BIN)/python host_tests/run_micropython.py --quick --folder $(QUICK_FOLDER)

test-cpython: setup  ## the tests under CPython (pytest)
	@$(BIN)/python -m pytest $(PARALLEL) -n 4

test-micropython: setup  ## the firmware under MicroPython: 64-bit, and what ships on 32-bit
	@$(BIN)/python host_tests/run_micropython.py

test-long: setup  ## what `make test` leaves out for its time; CI runs it: half an hour
	@$(BIN)/python -m pytest $(PARALLEL) -m "long or slow"
	@$(BIN)/python host_tests/run_micropython.py --long

commands: setup  ## 1,000 commands over power cuts and killed brokers, in virtual time
	@$(BIN)/python host_tests/fuzz/hunt_commands.py

loaded-runs: setup  ## `make test` twice at once beside four busy loops, RUNS=n times (5): failures?
	@$(BIN)/python host_tests/rigs/loaded_runs.py --runs $(or $(RUNS),5)

home-assistant: setup  ## Home Assistant itself at mosquitto: fetched (350 MB), then its test
	@$(BIN)/python host_tests/rigs/home_assistant/install.py
	@CI=true $(BIN)/python -m pytest -m "" -q -n 0 host_tests/system/test_home_assistant.py

kit-cuts: setup  ## every power cut of main.py and the examples in virtual time: half an hour
	@KIT_EVERY=1 $(BIN)/python -m pytest -m "" host_tests/tools/kit/test_kit_cuts.py

power-loss: setup  ## the long hunt: CUTS=n power cuts (100,000) in the outbox's flash operations
	@$(BIN)/python host_tests/fuzz/hunt_power_loss.py $(if $(CUTS),--cuts $(CUTS))

prove: setup  ## every state and every cut at small geometries, sessions too; SHORT=1: what CI runs
	@$(BIN)/python host_tests/prove/prove_outbox.py $(if $(SHORT),--short)
	@$(BIN)/python host_tests/prove/prove_session.py $(if $(SHORT),--short)
	@$(BIN)/python host_tests/prove/prove_progress.py $(if $(SHORT),--short)

mutants: setup  ## each token of the library changed, and what kills it: hours; EVERY=n
	@for set in outbox sessions level5 client; do $(BIN)/python host_tests/prove/mutants.py $$set \
		--every $(or $(EVERY),1) --processes 2 || status=1; done; exit $${status:-0}

rp2: setup  ## the RP2 port on an emulated chip: flash over USB, CUTS=n power cuts (300), cycles
	@$(PYTHON) tools/setup.py --rp2
	@$(BIN)/python host_tests/rigs/rp2040/long_run.py $(if $(CUTS),--cuts $(CUTS))

update-cuts: setup  ## power cuts in updates of all modules, emulated Pico W: CUTS=n (50)
	@$(PYTHON) tools/setup.py --rp2
	@$(BIN)/python host_tests/rigs/rp2040/update_cuts.py $(if $(CUTS),--cuts $(CUTS))

soak: setup  ## simulated years of a board: YEARS=n (8: an hour), INTERVAL=s between messages (10)
	@$(BIN)/python host_tests/fuzz/soak.py $(if $(YEARS),--years $(YEARS)) \
		$(if $(INTERVAL),--interval $(INTERVAL))

refusals: setup  ## an hour at a real mosquitto that does not take some messages; HOURS=n SPEED=n
	@$(BIN)/python host_tests/fuzz/hunt_refusals.py $(if $(HOURS),--hours $(HOURS)) \
		$(if $(SPEED),--speed $(SPEED))

virtual-days: setup  ## days of a client among servers and paths at fault; HOURS=n of each (24)
	@$(BIN)/python host_tests/fuzz/virtual_days.py $(if $(HOURS),--hours $(HOURS))

mixed: setup  ## any session, options and outbox at a server at fault, by chance; SEEDS=n (2000)
	@$(BIN)/python host_tests/fuzz/hunt_mixed.py $(if $(SEEDS),--seeds $(SEEDS))

size-diff: size

size: setup  ## bytes of the firmware: .mpy, heap on 32-bit, loaded and frozen, against the baseline
	@$(BIN)/python host_tests/bench/installed_files.py
	@$(BIN)/python host_tests/bench/size_report.py --frozen; status=$$?; \
		$(PYTHON) tools/setup.py --rp2 || echo "size: no MicroPython for the RP2040"; \
		$(BIN)/python host_tests/bench/program_heap.py --short && exit $$status

program-heap: setup  ## heap of the whole program on a Pico W, each configuration: minutes
	@$(PYTHON) tools/setup.py --rp2
	@$(BIN)/python host_tests/bench/program_heap.py

build: setup  ## the firmware's .mpy files in build/firmware, for every processor or for ARCH=
	@$(BIN)/outpost build --arch $(or $(ARCH),boards)

fuzz: setup  ## random inputs: MQ codec, MQTT client, pipeline's readers; N=n each (1,000,000)
	@$(BIN)/python host_tests/fuzz/fuzz_mq.py $(or $(N),1000000) $(or $(SEED),1)
	@$(BIN)/python host_tests/fuzz/fuzz_client.py --runs $(or $(N),1000000) --seed $(or $(SEED),1)
	@$(BIN)/python host_tests/fuzz/fuzz_messages.py $(or $(N),1000000) $(or $(SEED),1)

bench: setup  ## side by side with the peers: tables, and build/bench.json
	@$(PYTHON) tools/setup.py --arm || echo "bench: no MicroPython for ARM: its cells stay empty"
	@$(PYTHON) tools/setup.py --rp2 || echo "bench: no MicroPython for the RP2040: no cycles"
	@$(BIN)/python host_tests/bench/run_bench.py

bench-level5: setup  ## MQTT 5.0 beside 3.1.1: bytes on air, cycles of the emulated RP2040
	@$(BIN)/python host_tests/bench/level5_bytes.py
	@$(PYTHON) tools/setup.py --rp2 || echo "bench: no MicroPython for the RP2040: no cycles"
	@$(BIN)/python host_tests/rigs/rp2040/cycles.py --json build/level5_cycles.json \
		--script host_tests/rigs/rp2040/on_chip/level5.py

bench-pipeline: setup  ## where the CPU of a row goes between a segment and Spark
	@$(BIN)/python host_tests/bench/pipeline_profile.py

bench-series: setup  ## a million samples through collector and pipeline; SAMPLES=n SINGLES=n
	@$(BIN)/python host_tests/bench/series_million.py --samples $(or $(SAMPLES),1000000) \
		--singles $(or $(SINGLES),100000)

bench-sources: setup  ## other people's messages beside our own SenML readers: messages/s a core
	@$(BIN)/python host_tests/bench/sources_rates.py

bench-start: setup  ## the pipeline's first result of a small log: where the start of Spark goes
	@$(BIN)/python host_tests/bench/pipeline_start.py

bench-export: setup  ## `outpost export`: seconds and memory by messages; MESSAGES="n n"
	@$(BIN)/python host_tests/bench/export_rates.py $(if $(MESSAGES),--messages $(MESSAGES))

bench-report: setup  ## `outpost report`: seconds and memory by the days of the history; DAYS="n n"
	@$(BIN)/python host_tests/bench/report_memory.py $(if $(DAYS),--days $(DAYS))

live-pictures: setup  ## 40 pictures of the live page, in build/live-pictures, to look at
	@$(BIN)/python host_tests/rigs/live_pictures.py build/live-pictures

bench-live: setup  ## the live page under load: CPU, memory, MQTT to screen; BOARDS=n SECONDS=n
	@$(BIN)/python host_tests/bench/live_load.py --boards $(or $(BOARDS),400) \
		--seconds $(or $(SECONDS),60)

bench-silver: setup  ## 2 M rows to silver: both engines beside PySpark, DuckDB, polars; ROWS=n
	@$(BIN)/python host_tests/bench/silver_ways.py $(if $(ROWS),--rows $(ROWS))

bench-store: setup  ## what a bucket costs in a month, with the requests of a round
	@$(BIN)/python host_tests/bench/round_requests.py
	@$(BIN)/python host_tests/bench/store_costs.py

bench-year: setup  ## 10,000 boards that sleep, for a year: computed from measured growth
	@$(BIN)/python host_tests/bench/fleet_year.py

bench-rounds: setup  ## CPU of 5,000 new readings beside what is there; ROWS="n n" DAYS="n n"
	@$(BIN)/python host_tests/bench/pipeline_rounds.py $(if $(ROWS),--rows $(ROWS)) \
		$(if $(DAYS),--days $(DAYS)) $(if $(WAKES),--wakes $(WAKES) --rounds 32)

bench-collector: setup  ## the collector: messages/s alone and shared; what a killed broker loses
	@for options in "" "--no-confirmation" "--share 2" "--share 2 --no-confirmation" \
		"--devices 5000"; do \
		$(BIN)/python host_tests/bench/collector_rate.py $$options || exit 1; done
	@$(BIN)/python host_tests/bench/collector_rate.py --messages 600000 --put-ms 100
	@$(BIN)/python host_tests/bench/collector_streams.py
	@$(BIN)/python host_tests/fuzz/hunt_collector_loss.py

kills: setup  ## collector, group and broker killed at KILLS=n random moments each (60): exact?
	@OUTPOST_COLLECT_KILLS=$(or $(KILLS),60) OUTPOST_COLLECT_MESSAGES=$(or $(MESSAGES),100000) \
		$(BIN)/python -m pytest -m "" -s -q -n 0 host_tests/tools/servers/collect/test_collect_kills.py

kills-store: setup  ## collectors on a bucket killed KILLS=n times (50), PUTs under way: exact?
	@OUTPOST_STORE_KILLS=$(or $(KILLS),50) $(BIN)/python -m pytest -m "" -s -q -n 0 \
		host_tests/tools/servers/collect/test_collect_store_kills.py

kills-foreign: setup  ## other people's devices beside boards, all killed KILLS=n times (50): exact?
	@OUTPOST_FOREIGN_KILLS=$(or $(KILLS),50) OUTPOST_FOREIGN_BOARDS=$(or $(MESSAGES),10000) \
		$(BIN)/python -m pytest -m "" -s -q -n 0 host_tests/system/test_foreign_fleet.py

kills-readers: setup  ## five engines read in a loop, driver killed KILLS=n times (10): rows right?
	@OUTPOST_READER_KILLS=$(or $(KILLS),10) $(BIN)/python -m pytest -m "" -s -q -n 0 \
		host_tests/tools/readings/pipeline/test_pipeline_readers.py

kills-tables: setup  ## DRIVERS=n (2) at once, KILLS=n (75), on a folder or STORE=s3: tables exact?
	@OUTPOST_TABLES_KILLS=$(or $(KILLS),75) OUTPOST_TABLES_DRIVERS=$(or $(DRIVERS),2) \
		OUTPOST_TABLES_STORE=$(STORE) $(BIN)/python -m pytest -m "" -s -q -n 0 \
		host_tests/tools/readings/pipeline/test_tables_kill.py

kills-run: setup  ## `outpost run` killed KILLS=n times (20), its disk full, its clock set: lost?
	@OUTPOST_HOME_KILLS=$(or $(KILLS),20) $(BIN)/python -m pytest -m "" -n 0 -q \
		host_tests/tools/servers/home/test_home.py -k killed
	@$(BIN)/python host_tests/fuzz/hunt_home_days.py

bad-days: setup  ## the collector on full, slow, read-only disks, jumping clocks, hostile load
	@$(BIN)/python host_tests/fuzz/hunt_collector_days.py

soak-collector: setup  ## the collector under full load for MINUTES=n (60): memory flat, all stored?
	@$(BIN)/python host_tests/fuzz/hunt_collector_soak.py $(if $(MINUTES),--minutes $(MINUTES))

bench-diff: venv  ## the last `make bench` against host_tests/baselines/bench.json, with its error
	@$(BIN)/python host_tests/bench/bench_diff.py

cluster-test: setup  ## the pipeline on a Spark cluster: KILLS=n (3), on a folder or STORE=s3
	@CLUSTER=1 CLUSTER_KILLS=$(or $(KILLS),3) OUTPOST_TABLES_STORE=$(STORE) \
		$(BIN)/python -m pytest -m "" -n 0 -s -q \
		host_tests/tools/readings/pipeline/test_pipeline_cluster.py

demo-seeds: venv  ## the demo with SEEDS="1 2 3" (1 to 10); stops at the first that loses something
	@for seed in $(or $(SEEDS),1 2 3 4 5 6 7 8 9 10); do \
		$(BIN)/outpost demo --seed $$seed --out build/demo-$$seed || exit 1; done

lint: setup  ## ruff: rules and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: setup  ## the firmware against the MicroPython stubs of rp2, esp32 and unix
	@$(BIN)/python tools/typecheck.py

lock:  ## tools/requirements.lock from pyproject.toml, with the hashes of its files; UPGRADE=1
	@$(PYTHON) tools/lock.py $(if $(UPGRADE),--upgrade)

lock-packages:  ## the hashes of Debian's packages, after a point release of the suite
	@$(PYTHON) tools/lock_packages.py

format: setup  ## ruff: put into the format, fix what can be fixed
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean:  ## remove what was made in this work tree (not the interpreters in the cache)
	rm -rf build .venv .pytest_cache .ruff_cache .hypothesis *.egg-info tools/*.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +

# cpython-only: runs the programs of this folder
"""Every program of this folder runs, in a short form, as one types it: `make test-long`; so do the
hunts that start desktop tools. Of what it measures, only exact figures are compared, with the
tables of pages.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import marked_table
from outpost_tools.machine import children
from paths import BENCH, FUZZ, REPOSITORY

LIMIT_S = 600
# A section that could not be measured says so, and a program may end with 0 all the same.
BAD = re.compile(
    r"not measured:|not counted|NOT AS IT|Traceback|FAILED|failed|skipped|is not there", re.I
)
# Not these: chip_start takes the chip of `chip` for 10 s of CPU more; chip_wake and series have
# lines of their own.
SECTIONS = (
    "peers peer_sizes outbox_vs_littlefs peer_rates "
    "collector segments spark instructions chip chip_series power_cuts"
)


# Lines that run one after the other in the same folder. All together take three minutes of CPU. No
# line depends on a rate: a busy machine must not fail it.
SHORT = {
    one[0].partition(" ")[0]: one
    for one in (
        ("run_bench --short --blocks 1 --out {folder}/bench.json " + SECTIONS,
         "bench_diff {folder}/bench.json {folder}/bench.json"),
        ("chip_wake -k 'frozen, plain'",),
        ("collector_rate --messages 5000 --devices 50",),
        ("collector_streams --streams 20000 --changed 200",),
        ("export_rates --messages 5000",),
        ("fleet_year --measure {folder} 2 5 1",),
        ("installed_files",),
        ("journeys --hops",),
        ("kit_peers",),
        ("kit_rates --turns 1",),
        ("level5_bytes --messages 50",),
        ("live_load --boards 20 --seconds 3",),
        ("pipeline_profile --messages 20000 --rounds 1",),
        ("pipeline_rounds --wakes 10 --rounds 1",),
        ("real_series",),
        ("report_memory --days 2",),
        ("round_requests --json {folder}/requests.json",
         "store_costs --measured {folder}/requests.json"),
        ("series_bytes",),
        ("series_million --samples 30000 --singles 0 --engine local --json {folder}/m",),
        ("silver_ways --rows 6000 --ways outpost-spark outpost-local duckdb-delta polars-delta"
         " --json {folder}/silver.json",),
        ("size_parts",),
        ("size_report",),
        ("paho_ways --messages 2000 --rounds 1",),
        ("sources_rates --messages 2000 --rounds 1 --goal 0",),
        ("wear_of_boards",),
    )
}  # fmt: skip
HUNTS = (  # programs of fuzz/ that no test of their own runs
    "hunt_collector_days 'a clock that jumps'",
    "hunt_collector_loss --boards 1 --seconds 2",
    "hunt_collector_soak --minutes 0.05 --growth 9",
    "hunt_home_days",
    "hunt_idle_connections --idle 50 --rate 200 --seconds 2 --turns 1",
)
# Exact figures: what the program prints has each line of this marked table.
TABLES = {
    "kit_peers": (BENCH / "TOOLS.md", "kit"),
    "round_requests": (BENCH / "README.md", "requests"),
    "series_bytes": (BENCH / "README.md", "series"),
}
# Programs that are not run here, with the reason.
PARTS = {  # what runs them
    "delta_ways": "silver_ways",
    "installed_blocks": "installed_files",
    "littlefs_bench": "run_bench",
    "series_stores": "series_bytes",
}
EXCEPTIONS = {
    "bench_readme": "writes pages; test_readme_figures.py compares them",
    "broker_drops": "`make brokers`, which CI runs",
    "memory_page": "writes a page; test_memory_fit.py compares it",
    "mistakes": "waits for minutes for peers that never end; test_mistakes.py has our column",
    "pipeline_start": "36 s of CPU for two starts of Spark, which silver_ways does, too",
    "program_heap": "an emulated chip for minutes; `make size` has its short form",
}


def programs() -> set[str]:
    return {
        path.stem
        for path in BENCH.glob("*.py")
        if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
        and not path.name.startswith("test_")
    }


def run(line: str, folder: Path, room: Path = BENCH) -> str:
    """Returns what it printed. Fails where it says that something was not measured."""
    name, *words = shlex.split(line.format(folder=folder))
    done = subprocess.run(
        [sys.executable, str(room / f"{name}.py"), *words], cwd=REPOSITORY, text=True,
        env=children.tools_environment(), capture_output=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    text = done.stdout + done.stderr
    assert done.returncode == 0, f"{line}: exit status {done.returncode}\n{text[-4000:]}"
    assert not (found := BAD.search(text)), f"{line}: {found}\n{text[-4000:]}"
    return text


@pytest.mark.long
@pytest.mark.parametrize("name", SHORT)
def test_a_bench_runs(name, tmp_path):
    printed = "".join(run(line, tmp_path) for line in SHORT[name])
    if name in TABLES:
        missing = set(marked_table.read(*TABLES[name]).splitlines()) - {*printed.splitlines()}
        assert not missing, (missing, printed)


@pytest.mark.long
@pytest.mark.parametrize("line", HUNTS)
def test_a_hunt_runs(line, tmp_path):
    run(line, tmp_path, FUZZ)


def test_the_page_has_the_bytes_of_mqtt_5(tmp_path):
    page = (BENCH / "README.md").read_text(encoding="utf-8").partition("## MQTT 5.0")[2]
    printed = run("level5_bytes --messages 20", tmp_path)
    measured = [float(row) for row in re.findall(r"^MQTT.{42} +([\d.]+)", printed, re.M)]
    assert [float(one) for one in re.findall(r"\| (\d+) bytes \|", page)] == measured


def test_every_program_is_run_or_says_why_not():
    run_here = {line.partition(" ")[0] for one in SHORT.values() for line in one}
    listed = [*run_here, *PARTS, *EXCEPTIONS]
    assert sorted(listed) == sorted(programs())
    for part, program in PARTS.items():
        assert part in (BENCH / f"{program}.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "page", [*REPOSITORY.glob("*.md"), *(REPOSITORY / "host_tests").rglob("*.md"),
             REPOSITORY / "Makefile"], ids=lambda page: page.name,
)  # fmt: skip
def test_a_program_that_a_page_names_is_there(page):
    names = re.findall(r"host_tests/(\w+(?:/\w+)+\.py)", page.read_text(encoding="utf-8"))
    assert [one for one in names if not (REPOSITORY / "host_tests" / one).exists()] == []

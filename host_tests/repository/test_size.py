# cpython-only: compiles with mpy-cross and measures under 32-bit MicroPython
"""The firmware stays within the budgets of bench/size_report.py, and within 2 % of the baseline."""

import csv
import os
import re
import subprocess
import sys

import pytest

from outpost_tools.machine.interpreters import find_micropython
from paths import BENCH, HOST_TESTS, REPOSITORY

REPORT = BENCH / "size_report.py"


@pytest.fixture(autouse=True)
def interpreter():
    if find_micropython("i386") is None:
        pytest.skip("missing: MicroPython for i386; run `make setup`")


def report(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | environment
    command = [sys.executable, str(REPORT), *words]
    return subprocess.run(
        command, env=env, capture_output=True, text=True, check=False, timeout=120
    )


def figures(text: str, first_word: str) -> list[int]:
    """The first two numbers of 3 digits and more in the line that begins so, after its title."""
    line = next(line for line in reversed(text.splitlines()) if line.startswith(first_word))
    return [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]{2,}", line)]


def baseline(first_word: str) -> dict[str, str]:
    """The line of a configuration; its frozen figures are `make size`'s, which builds an
    interpreter for them.
    """
    with (HOST_TESTS / "baselines" / "size.csv").open() as file:
        return next(
            line for line in csv.DictReader(file) if line["name"].startswith(f"= {first_word}")
        )


def test_within_budget_and_baseline_and_as_the_page_says():
    done = report()
    assert done.returncode == 0, done.stderr
    page = (REPORT.parent / "README.md").read_text()
    for ours, theirs in (("client alone", "| client alone"), ("with outbox", "| client, outbox")):
        mpy, _, heap = figures(done.stdout, ours)[:3]
        frozen = int(baseline(ours)["frozen"])
        assert figures(page, theirs) == pytest.approx([mpy, heap, frozen], rel=0.02)


def test_the_place_where_it_lies_changes_nothing(tmp_path):
    import size_report

    bench, found = size_report.Bench(REPOSITORY / "firmware", tmp_path / "x"), set()
    for length in (30, 60, 90, 120):
        found.add(bench.row(size_report.CLIENT.modules, size_report.CLIENT.instance))
        bench.folder = bench.folder.rename(tmp_path / ("x" * length))
    assert len(found) == 1


@pytest.mark.long
def test_a_module_that_grows_is_told(tmp_path):
    """The report must be able to fail: with a copy of the firmware that has grown."""
    firmware = tmp_path / "firmware"
    subprocess.run(["cp", "-r", str(REPOSITORY / "firmware"), str(firmware)], check=True)
    with (firmware / "outpost" / "session.py").open("a") as file:
        file.writelines(
            f"\n\ndef more_{n}(buf, at):\n    return buf[at] + buf[at + 1] * {n} + len(buf)\n"
            for n in range(40)
        )
    done = report("--firmware", str(firmware))
    assert done.returncode != 0
    assert "budget" in done.stderr


def test_the_parts_of_the_heap_are_the_baselines():
    """bench_readme.py writes the page's tables from it."""
    import size_parts

    found = {row[:2]: row[2:] for row in size_parts.measured()}
    with size_parts.BASELINE.open() as file:
        kept = {(row["table"], row["title"]): row for row in csv.DictReader(file)}
    assert found.keys() == kept.keys()
    for key, counts in found.items():
        said = [int(kept[key][column]) for column in ("alone", "whole")]
        assert list(counts) == pytest.approx(said, rel=0.05, abs=64), key

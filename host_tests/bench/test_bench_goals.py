# cpython-only: the benchmarks' own arithmetic
"""What the benchmarks conclude from their figures: the spread, the growth, the table of goals, and
the comparison of two runs.
"""

import dataclasses
import itertools
import json
import statistics
import sys

import pytest

import bench_diff
import goal_cells
import goals
import growth
import run_bench
import size_report
import spread
from outpost_tools.errors import ToolError

# --- The spread ---


@pytest.mark.parametrize(("blocks", "rank"), [(3, 1), (5, 1), (5, 2), (7, 2)])
def test_the_probability_is_that_of_all_orders(blocks, rank):
    """Every way to distribute 2 x blocks places between the two runs is equally likely."""
    hits = ways = 0
    for first in itertools.combinations(range(2 * blocks), blocks):
        second = sorted(set(range(2 * blocks)) - set(first))
        hits += first[rank - 1] < statistics.median(second) < first[-rank]
        ways += 1
    assert spread.probability(blocks, rank) == pytest.approx(hits / ways)


def test_the_spread_is_the_narrowest_that_holds():
    one = spread.spread([float(n) for n in range(spread.BLOCKS)])
    rank = spread.rank(spread.BLOCKS)
    assert (one["low"], one["high"]) == (rank - 1, spread.BLOCKS - rank)
    assert one["holds"] >= spread.HOLDS > spread.probability(spread.BLOCKS, rank + 1)
    assert one["median"] == spread.BLOCKS // 2


def test_few_blocks_say_how_little_they_hold():
    assert spread.spread([1.0, 2.0, 4.0]) == {
        "low": 1.0,
        "median": 2.0,
        "high": 4.0,
        "blocks": 3,
        "holds": 0.6,
    }


def test_the_blocks_lie_evenly_over_the_run():
    names = [*run_bench.SECTIONS, *run_bench.RATES]
    order = run_bench.plan(names, run_bench.RATES)
    assert {name: order.count(name) for name in names} == {
        n: run_bench.RATES[n].blocks if n in run_bench.RATES else 1 for n in names
    }
    half = order[: len(order) // 2]
    for name, one in run_bench.RATES.items():
        assert abs(half.count(name) - one.blocks / 2) <= 1


def test_a_section_that_fails_leaves_the_others(monkeypatch, capsys):
    monkeypatch.setattr(run_bench, "SECTIONS", {"bad": lambda: 1 / 0, "good": lambda: 2})
    monkeypatch.setattr(run_bench, "RATES", {"rate": run_bench.Rates(lambda: 3, sum, 3)})
    found = run_bench.measure(["bad", "good", "rate"], run_bench.Stopwatch())
    assert (
        found["good"] == 2 and found["rate"] == 9 and "ZeroDivisionError" in found["failed"]["bad"]
    )
    assert "bench: bad" in capsys.readouterr().err


def test_make_bench_fails_with_a_section_and_names_it_at_the_end(monkeypatch, capsys, tmp_path):
    def no_emulator():
        raise ToolError("no MicroPython for the RP2040")

    monkeypatch.setattr(run_bench, "SECTIONS", {"chip": no_emulator, "peers": lambda: []})
    out = ["--out", str(tmp_path / "bench.json")]
    assert run_bench.main(["chip", "peers", *out]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "bench: section chip failed: no MicroPython for the RP2040"
    assert run_bench.main(["peers", *out]) == 0


def test_a_section_that_fails_keeps_no_figure_of_an_earlier_run():
    kept = {"spark": {"rate": 1}, "peers": [1], "failed": {}}
    assert run_bench.merged(kept, {"failed": {"spark": "no Java"}}) == {
        "peers": [1],
        "failed": {"spark": "no Java"},
    }
    assert run_bench.merged(kept, {"failed": {}, "peers": [2]}) == {
        "spark": {"rate": 1},
        "peers": [2],
        "failed": {},
    }


# --- Growth ---

COUNTS = (
    {f"copy of bytes, {n}": 2000 + 25 * n for n in (100, 300)}
    | {f"CRC of bytes, {n}": 2000 + 60 * n for n in (100, 300)}
    | {
        f"{kind}, payload {n}": 9000 + 25 * n
        for kind in ("RAM", "client")
        for n in (16, 256, 4096, 16359)
    }
    | {f"flash, payload {n}": 80_000 + 150 * n for n in (16, 256, 1900)}
    | {f"flash, blocks {n}": 90_000 for n in (4, 250)}
    | {"flash, backlog 0": 90_000, "flash, backlog 39": 120_000, "flash, backlog 1950": 120_000}
    | {f"window, PUBACK of the oldest of {n}": 12_000 for n in (1, 16)}
    | {f"{kind} {step}": 30_000 for kind in ("RAM", "flash") for step in growth.STEPS}
    | {"robust": 40_000, "simple": 30_000, "raw": 4000}
)


def said(**changes: int) -> dict[str, bool]:
    found = COUNTS | {
        name.replace("__", ", ").replace("_", " "): value for name, value in changes.items()
    }
    return {one.what: one.holds for one in growth.verdicts(found)}


def test_a_line_is_found():
    line = growth.lines(COUNTS)["stored message, by payload"]
    assert (line.base, line.slope) == pytest.approx((80_000, 150)) and line.worst < 1e-9


def test_flat_and_linear_are_told_from_growth():
    assert said() == {
        "backlog": True, "blocks": True, "window": True,
        **dict.fromkeys(growth.IN_RAM, True), growth.STORED: False
    }  # fmt: skip
    assert said(flash__backlog_1950=125_000)["backlog"] is False
    assert said(flash__blocks_250=95_000)["blocks"] is False
    bent = {
        f"RAM__payload_{n}": count
        for n, count in ((16, 20_000), (256, 12_000), (4096, 20_000), (16359, 25_000))
    }
    assert said(**bent)["message in RAM, by payload"] is False  # less than a copy, but not a line
    steeper = {f"RAM__payload_{n}": 9000 + 28 * n for n in (16, 256, 4096, 16359)}
    assert said(**steeper)["message in RAM, by payload"] is False


# --- The table of goals ---


def results() -> dict:
    cell = {"qos1_heap": [0, 0], "qos1_locked": True, "idle_heap": [0, 0]}
    ours = {"outpost_ram_1": dict(cell), "outpost_nor_1": dict(cell)}
    rate = {"low": 0.5, "median": 0.6, "high": 0.7, "blocks": 21, "holds": 0.99}
    rates = {
        name: {"qos1": rate | {"ratio": rate, "polling": rate}}
        for name in ("outpost_ram_1", "outpost_flash_1")
    }
    sizes = {
        goal_cells.ALONE: {"heap": 11_000, "mpy": 9000},
        goal_cells.WHOLE: {"heap": size_report.ALL.heap_goal, "mpy": 19_000},
    }
    return {
        "peers": {"cells": ours, "arm": {}, "missing": {}},
        "peer_rates": rates,
        "peer_sizes": sizes,
        "instructions": COUNTS,
    }


def lines(found: dict) -> dict[str, dict]:
    return {line["what"]: line for line in goals.table(found)}


def state(found: dict, start: str) -> str:
    return next(line["state"] for what, line in lines(found).items() if what.startswith(start))


def test_reached_within_budget_and_not_reached():
    found = results()
    whole = "Heap after import and one instance, .mpy: with outbox"
    assert (
        state(found, "Heap per QoS 1")
        == state(found, "Heap after import and one instance, .mpy: client")
        == goal_cells.YES
    )
    assert state(found, whole) == goal_cells.YES
    found["peer_sizes"][goal_cells.WHOLE]["heap"] = size_report.ALL.heap_budget + 1
    assert state(found, whole) == goal_cells.NO
    assert state(found, "Instructions per stored") == goal_cells.NO
    found["peers"]["cells"]["outpost_nor_1"]["qos1_heap"] = [0, 16]
    found["peer_rates"]["outpost_ram_1"]["qos1"]["ratio"] = {"median": 0.49, "low": 0, "high": 1}
    assert (
        state(found, "Heap per QoS 1")
        == state(found, "QoS 1 publishes/s over loopback, window 1, without")
        == goal_cells.NO
    )


def test_a_size_between_goal_and_budget_says_so():
    wide = dataclasses.replace(size_report.ALL, heap_goal=100, heap_budget=110)
    for heap, expected in (
        (100, goal_cells.YES), (101, goal_cells.BUDGET), (110, goal_cells.BUDGET),
        (111, goal_cells.NO),
    ):  # fmt: skip
        found = results() | {"peer_sizes": {goal_cells.WHOLE: {"heap": heap, "mpy": 1}}}
        assert goal_cells.size(goal_cells.WHOLE, wide)(found).state == expected


def test_what_is_not_reached_has_its_reason_and_what_was_not_run_says_so():
    found = lines(results() | {"failed": {"spark": "no Java"}})
    assert {line["state"] for line in found.values()} == {
        goal_cells.YES,
        goal_cells.NO,
        goal_cells.UNKNOWN,
    }
    for line in found.values():
        assert bool(line["reason"]) == (line["state"] != goal_cells.YES)
    assert "no Java" in found["Segments through Spark, rows/s on two threads"]["reason"]
    assert found["Instructions per stored QoS 1 message with its PUBACK, 32-bit"]["profile"]


def test_without_arm_the_row_says_so():
    assert "ARM: not to be had here" in next(iter(lines(results()).values()))["measured"]


def test_the_table_is_printed(capsys):
    found = goals.table(results())
    goals.show(found)
    printed = capsys.readouterr().out
    assert all(line["what"] in printed for line in found)
    assert "NOT REACHED" in printed


def test_the_frozen_rows_are_those_of_the_baseline(monkeypatch):
    kept = size_report.read_baseline()[f"= {size_report.ALL.title}"]
    row = lines(results())[
        "The same heap, frozen into the image: with outbox, reconnect, telemetry"
    ]
    assert row["measured"] == f"{kept.frozen:,}"
    more = {f"= {size_report.ALL.title}": dataclasses.replace(kept, frozen=9001)}
    monkeypatch.setattr(size_report, "read_baseline", lambda: more)
    assert state(results(), row["what"]) == goal_cells.NO
    assert (
        state(results(), "The same heap, frozen into the image: client alone") == goal_cells.UNKNOWN
    )


def test_the_configurations_have_their_names():
    assert (
        size_report.CLIENT.title in goal_cells.ALONE and size_report.ALL.title in goal_cells.WHOLE
    )


# --- Two runs ---


def compare(tmp_path, monkeypatch, first: dict, second: dict) -> int:
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, figures in zip(paths, (first, second), strict=True):
        path.write_text(json.dumps(figures))
    monkeypatch.setattr(sys, "argv", ["bench_diff.py", *map(str, paths)])
    return bench_diff.main()


FIRST = {"a ratio": [0.4, 0.5, 0.6], "heap": [16]}


@pytest.mark.parametrize(
    ("second", "status", "word"),
    [
        ({"a ratio": [0.5, 0.6, 0.7], "heap": [16]}, 0, "0 outside"),
        ({"a ratio": [0.55, 0.61, 0.7], "heap": [16]}, 1, "1 outside of the spread: a ratio"),
        ({"a ratio": [0.3, 0.39, 0.5], "heap": [16]}, 1, "1 outside of the spread: a ratio"),
        ({"a ratio": [0.4, 0.5, 0.6], "heap": [17]}, 1, "1 changed: heap"),
    ],
)
def test_a_second_run_outside_of_the_spread_is_told(
    tmp_path, monkeypatch, capsys, second, status, word
):
    assert compare(tmp_path, monkeypatch, FIRST, second) == status
    assert word in capsys.readouterr().out


def test_every_section_is_compared():
    given = bench_diff.figures(results() | {"outbox_vs_littlefs": []})
    for start in (
        "outpost_ram_1 qos1_heap net",
        "instructions: robust",
        "outpost_ram_1 qos1 of raw",
    ):
        assert start in given
    assert given["outpost_ram_1 qos1 of raw_polling"] == [0.5, 0.6, 0.7]


def test_a_peers_count_has_its_least_and_most():
    given = bench_diff.figures(
        {"instructions": {"simple": 5, "simple, least": 4, "simple, most": 7, "RAM send": 3}}
    )
    assert given == {"instructions: simple": [4, 5, 7], "instructions: RAM send": [3]}

"""The measurements of the rows of goals.py: figures from the results of run_bench.py, and whether
the goal is reached.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import growth
import size_report

Results = dict[str, Any]
Profile = list[tuple[str, str]]
YES, BUDGET, NO, UNKNOWN = "reached", "within budget, above the goal", "not reached", "not measured"
ALONE = f"outpost {size_report.CLIENT.title}"
WHOLE = f"outpost {size_report.ALL.title}"


class Missing(Exception):
    """The section that a row needs was not run, or could not be run."""


@dataclass(frozen=True)
class Cell:
    """The measurement of a row; state: YES, BUDGET or NO."""

    measured: str
    state: str
    profile: Profile


def _section(results: Results, name: str) -> Any:
    if not results.get(name):
        raise Missing(f"section {name}: {results.get('failed', {}).get(name, 'not run')}")
    return results[name]


def _pair(values: list[float]) -> str:
    return " / ".join(f"{value:,.0f}" for value in values)


def _state(good: bool) -> str:
    return YES if good else NO


def _span(one: dict[str, float], form: str = ",.0f") -> str:
    return f"{one['median']:{form}} ({one['low']:{form}} .. {one['high']:{form}})"


def publish_heap(results: Results) -> Cell:
    section = _section(results, "peers")
    found, good = [], True
    for processor, rows in (("x86", section["cells"]), ("ARM", section["arm"])):
        cells = {kind: rows.get(f"outpost_{kind}_1") for kind in ("ram", "nor")}
        if not all(cells.values()):
            found.append(f"{processor}: not to be had here")
            continue
        found += [
            f"{processor}, {OUTBOXES[kind]}: {_pair(row['qos1_heap'])}"
            for kind, row in cells.items()
        ]
        good &= all(row["qos1_heap"] == [0, 0] and row["qos1_locked"] for row in cells.values())
    locked = all(
        row["qos1_locked"]
        for rows in (section["cells"], section["arm"])
        for name, row in rows.items()
        if name in HEAP
    )
    return Cell(
        "; ".join(found) + f"; with the heap locked: {'yes' if locked else 'no'}", _state(good), []
    )


HEAP = ("outpost_ram_1", "outpost_nor_1")
OUTBOXES = {"ram": "RAM", "nor": "flash outbox"}


def peer_cells(key: str, unit: str) -> Callable[[Results], str]:
    def peers(results: Results) -> str:
        cells = {
            name: row.get(key)
            for name, row in results["peers"]["cells"].items()
            if not name.startswith("outpost")
        }
        return (
            ", ".join(f"{name} {_pair(value)}" for name, value in cells.items() if value)
            + f" {unit}"
        )

    return peers


def idle(results: Results) -> Cell:
    section = _section(results, "peers")
    rows = [
        rows[name] for rows in (section["cells"], section["arm"]) for name in HEAP if name in rows
    ]
    worst = [max(row["idle_heap"][at] for row in rows) for at in (0, 1)]
    return Cell(
        f"{_pair(worst)} B/s at 100 polls a second, {'x86 and ARM' if section['arm'] else 'x86'}",
        _state(worst == [0, 0]),
        [],
    )


def rate(name: str, goal: float, part: str) -> Callable[[Results], Cell]:
    def measure(results: Results) -> Cell:
        row = _section(results, "peer_rates")[name]["qos1"]
        of_raw, of_polling = (_span(row[limit], ".2f") for limit in ("ratio", "polling"))
        measured = (
            f"{of_raw} of the loop that waits, {of_polling} of the loop that polls; "
            f"{row['median']:,.0f}/s"
        )
        return Cell(measured, _state(row["ratio"]["median"] >= goal), _instructions(results, part))

    return measure


def times_peers(results: Results) -> str:
    rates = results.get("peer_rates", {})
    found = {
        name: rates["outpost_ram_1"]["qos1"]["median"] / rates[name]["qos1"]["median"]
        for name in ("simple", "simple+", "robust", "robust+")
        if name in rates
    }
    each = ", ".join(f"{times:,.2f} x {name}" for name, times in found.items())
    return f"Outpost without outbox: {each} (+: TCP_NODELAY set by hand)" if found else ""


def _instructions(results: Results, kind: str) -> Profile:
    found = results.get("instructions", {})
    steps = {
        step: found[f"{kind} {step}"]
        for step in ("publish", "send", "PUBACK", "idle")
        if f"{kind} {step}" in found
    }
    whole = sum(steps.values()) - steps.get("idle", 0)
    names = {
        "publish": "publish()",
        "send": "poll() that sends",
        "PUBACK": "poll() that takes the PUBACK",
        "idle": "poll() that finds nothing",
    }
    profile = [
        (
            f"instructions: {names[step]}",
            f"{count:,}{f' ({count / whole:.0%})' if step != 'idle' else ''}",
        )
        for step, count in steps.items()
    ]
    chip = "flash publish, of this the simulated chip"
    if kind == "flash" and chip in found:
        profile.append((chip, f"{found[chip]:,}"))
    return profile + [
        (f"instructions: {name}, the whole message", f"{found[name]:,}")
        for name in ("raw", "simple", "robust")
        if name in found
    ]


def size(name: str, configuration: size_report.Configuration) -> Callable[[Results], Cell]:
    """Heap of import and one instance, from .mpy."""

    def measure(results: Results) -> Cell:
        row = _section(results, "peer_sizes")[name]
        value, goal = row["heap"], configuration.heap_goal
        state = YES if value <= goal else BUDGET if value <= configuration.heap_budget else NO
        return Cell(f"{value:,}; .mpy {row['mpy']:,}", state, [])

    return measure


def frozen_size(configuration: size_report.Configuration) -> Callable[[Results], Cell]:
    """The same with the firmware in the image: from size.csv, because it needs a separate build."""

    def measure(results: Results) -> Cell:
        row = size_report.read_baseline().get(f"= {configuration.title}")
        if row is None or row.frozen is None:
            raise Missing("baselines/size.csv has no frozen figure: make size, with --write")
        return Cell(f"{row.frozen:,}", _state(row.frozen <= configuration.frozen_goal), [])

    return measure


def peer_sizes(results: Results) -> str:
    return ", ".join(
        f"{name} {row['heap']:,}"
        for name, row in results["peer_sizes"].items()
        if not name.startswith("outpost")
    )


def flash(results: Results) -> Cell:
    row = next(
        row
        for row in _section(results, "outbox_vs_littlefs")
        if row["store"] == "Outbox" and row["unit_bytes"] == 256
    )
    good = (
        row["erases"] <= 0.026
        and row["programs"] <= 1.02
        and row["heap_net"] == row["heap_gross"] == 0
    )
    heap = f"{row['heap_net']:.0f} net, {row['heap_gross']:.0f} gross"
    return Cell(f"{row['erases']:.4f} / {row['programs']:.2f} / {heap}", _state(good), [])


def stores(results: Results) -> str:
    rows = [
        row
        for row in results["outbox_vs_littlefs"]
        if row["unit_bytes"] == 256 and not row["store"].startswith("Outbox")
    ]
    return ", ".join(
        f"{row['store']}: {row['erases']:.3f} / {row['programs']:.2f} / {row['heap_net']:,.0f}"
        for row in rows
    )


def cuts(results: Results) -> Cell:
    row = _section(results, "power_cuts")
    said = "; ".join(row["violations"]) or "0 lost, 0 invented, 0 out of order"
    measured = (
        f"{row['cuts']:,} cuts, {row['second_cuts']:,} with a second one: {said}; "
        f"at most {row['duplicates']} sent again"
    )
    return Cell(measured, _state(not row["violations"] and row["second_cuts"] > 0), [])


def collector(results: Results) -> Cell:
    row = _section(results, "collector")
    measured = f"{_span(row['rate'])} messages/s, {row['lost']} lost"
    broker_ms = row["broker_cpu_s_per_1000"]["median"] * 1000
    profile = [
        ("messages per CPU second of the collector", _span(row["rate_per_cpu_s"])),
        ("broker: CPU ms per 1,000 messages", f"{broker_ms:.1f}"),
        ("fsync", row["commits"]), *_busy(results),
    ]  # fmt: skip
    return Cell(measured, _state(row["rate"]["median"] >= 15_000 and row["lost"] == 0), profile)


def segments(results: Results) -> Cell:
    row = _section(results, "segments")
    best = max(row["1"]["rate"], row["2"]["rate"], key=lambda one: one["median"])
    profile = [
        (f"rows per CPU second, {count} process(es)", _span(row[count]["per_cpu_s"]))
        for count in ("1", "2")
    ]
    return Cell(
        f"{_span(best)} rows/s", _state(best["median"] >= 500_000), profile + _busy(results)
    )


def spark(results: Results) -> Cell:
    row = _section(results, "spark")
    profile = [*_busy(results)]
    if "segments" in results:
        profile.insert(
            0,
            (
                "the reader without Spark, 2 processes",
                f"{_span(results['segments']['2']['rate'])} rows/s",
            ),
        )
    return Cell(f"{row['rate']:,} rows/s, one figure", _state(row["rate"] >= 500_000), profile)


def _busy(results: Results) -> Profile:
    environment = results.get("environment", {})
    return [
        (
            "processors; load before the run",
            f"{environment.get('cpus', '?')}; {environment.get('load before', '?')}",
        )
    ]


def stored_instructions(results: Results) -> Cell:
    found = _section(results, "instructions")
    whole = growth.whole(found, "flash")
    robust = found.get("robust")
    if robust is None:
        raise Missing("umqtt.robust could not be had")
    return Cell(f"{whole:,}", _state(whole < robust), _instructions(results, "flash"))


def robust_instructions(results: Results) -> str:
    return "; ".join(
        f"{name} {results['instructions'][name]:,}" for name in ("robust", "simple", "raw")
    )


CHIP_GOALS = {"QoS 0": 36_000, "RAM QoS 1, all three": 88_500, "stored QoS 1, all three": 151_000}
CHIP_IDLE_GOALS = {"RAM idle poll, same ms": 6_000, "RAM idle poll, new ms": 6_000}
_NOT_IN_A_MESSAGE = ("import of", "64 ", "mount of", "umqtt")
_CHIP_TITLES = {"RAM QoS 1, all three": "QoS 1 in RAM", "stored QoS 1, all three": "QoS 1 stored"}


def chip(goals: dict[str, int]) -> Callable[[Results], Cell]:
    """Cycles of rows of rp2040/cycles.py, each with its goal."""

    def measure(results: Results) -> Cell:
        found = _section(results, "chip")
        measured = ", ".join(
            f"{_CHIP_TITLES.get(name, name)} {found[name]['cycles']:,}" for name in goals
        )
        good = all(found[name]["cycles"] <= goal for name, goal in goals.items())
        parts = [
            name for name in found if name not in goals and not name.startswith(_NOT_IN_A_MESSAGE)
        ]
        return Cell(
            measured, _state(good), [(name, f"{found[name]['cycles']:,}") for name in parts]
        )

    return measure


def chip_peers(results: Results) -> str:
    found = {name: row for name, row in results["chip"].items() if name.startswith("umqtt")}
    return (
        ", ".join(f"{name} {row['cycles']:,}" for name, row in found.items())
        + "; none of them stores"
    )


def chip_start(results: Results) -> Cell:
    found = _section(results, "chip_start")
    profile = [
        (name.removesuffix("_s").replace("_", " "), f"{value:.2f} s")
        for name, value in found.items()
        if not name.startswith("frozen_")
    ]
    profile += [
        (name, f"{row['cycles'] / 125e6:.2f} s")
        for name, row in results.get("chip", {}).items()
        if name.startswith(("import of", "mount of", "64 pinned"))
    ]
    return _start_cell(found["stored_s"], 0.8, profile)


def chip_start_frozen(results: Results) -> Cell:
    found = _section(results, "chip_start")
    names = [name for name in found if name.startswith("frozen_")]
    profile = [
        (name.removesuffix("_s").replace("_", " "), f"{found[name]:.2f} s") for name in names
    ]
    return _start_cell(found["frozen_stored_s"], 0.25, profile)


def _start_cell(seconds: float, goal: float, profile: list[tuple[str, str]]) -> Cell:
    return Cell(f"{seconds:.2f} s", _state(seconds <= goal), profile)


def grows(results: Results) -> Cell:
    found = _section(results, "instructions")
    return _verdicts(growth.flat(found) + growth.linear(found, growth.IN_RAM), found)


def stored_grows(results: Results) -> Cell:
    found = _section(results, "instructions")
    return _verdicts(growth.linear(found, (growth.STORED,)), found)


def _verdicts(verdicts: list[growth.Verdict], found: dict[str, int]) -> Cell:
    measured = "; ".join(
        f"{one.what}: {one.says}{'' if one.holds else ' (not as it should be)'}" for one in verdicts
    )
    profile = [
        (f"{name}, instructions a byte", f"{one.slope:.1f}")
        for name, one in growth.lines(found).items()
    ]
    return Cell(measured, _state(all(one.holds for one in verdicts)), profile)


def none(results: Results) -> str:
    return ""

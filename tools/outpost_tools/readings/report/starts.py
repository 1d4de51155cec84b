"""What the readings tell of a device's starts, and of how often it reports. No HTML."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.attention import restarts, silence
from outpost_tools.readings.report.outages import POWER_CUT, Outage

_KEY = ["device", "stream", "boot"]


def unwanted(timed: pa.Table, outages: list[Outage]) -> dict[str, list[int]]:
    """By device: the causes of the restarts in the day before its newest reading that nobody wanted
    (restarts.py). A power cut of the events is wanted."""
    causes = _of(timed, restarts.CAUSE).select([*_KEY, "value"])
    causes = causes.group_by(_KEY).aggregate([("value", "max")])
    starts = timed.group_by(_KEY).aggregate([("time", "min"), ("time", "max"), ("seq", "count")])
    found: dict[str, restarts.Restarts] = {}
    ends: Counter[str] = Counter()
    readings: Counter[str] = Counter()
    for row in starts.join(causes, _KEY).sort_by("time_min").to_pylist():
        device, ends_ms = row["device"], row["time_max"].timestamp() * 1000
        kept = found.setdefault(device, restarts.Restarts())
        kept.take(row["stream"], row["boot"], row["time_min"].timestamp() * 1000, row["value_max"])
        ends[device] = max(ends[device], int(ends_ms))
        readings[device] += row["seq_count"]
    all_causes = {name: one.unwanted(ends[name], readings[name]) for name, one in found.items()}
    return {name: told[_cuts(name, ends[name], outages) :] for name, told in all_causes.items()}


def _cuts(device: str, end_ms: float, outages: list[Outage]) -> int:
    since_ms = end_ms - restarts.WINDOW_S * 1000
    return sum(
        one.kind == POWER_CUT and one.device == device and one.begin.timestamp() * 1000 > since_ms
        for one in outages
    )


def announced_s(timed: pa.Table) -> dict[str, float]:
    """By device: seconds between two reports, as it announced last."""
    told = _of(timed, silence.REPORT_S).select(["device", "time", "seq", "value"])
    return {row["device"]: row["value"] for row in told.sort_by("time").to_pylist()}


def _of(timed: pa.Table, name: str) -> pa.Table:
    return timed.filter(pc.equal(timed["name"], name))

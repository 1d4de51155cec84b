"""The devices on the page, as values for templates/fleet.html."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pandas as pd

from outpost_tools.attention.attention import KINDS, Finding, takeovers
from outpost_tools.readings.report.data import Binned, Outage, Report
from outpost_tools.readings.report.newest import Value
from outpost_tools.text.words import LETTERS, OTHER, count, duration, moment, with_unit

Found = list[tuple[dict, list[Finding]]]
Runs = list[tuple[int, int]]  # first bin and length of each period without a gap
ROWS_AT_FIRST = 50  # as in report.js
_MARKS_SHOWN = 40
# What the opened device says about its flash, for values that are not 0.
_HEALTH = (
    ("left_out", "{:,} flash blocks failed and left out"),
    ("pins_lost", "{:,} of its files gone"),
    ("aside", "{:,} messages set aside"),
    ("not_passed", "{:,} messages that the broker took and did not pass on"),
    ("unheard", "{:,} h without a confirmation"),
    ("not_published", "{:,} measurements not stored"),
    ("unreadable", "{:,} messages that the flash lost"),
    ("cut_short", "{:,} times a series was sent without its last samples"),
    ("mended", "{:,} flipped bits mended"),
    ("torn", "{:,} boots found a record torn by a power cut"),
    ("takeovers", "disconnected {:,} times by another client with its name"),
)


def values(report: Report, found: Found) -> dict[str, Any]:
    binned = report.binned
    runs = {} if binned is None else _runs(binned)
    counts = {key: sum(any(f.key == key for f in one) for _, one in found) for key in KINDS}
    made = {"found": found, "runs": runs, "rows_at_first": ROWS_AT_FIRST, "facts": _facts}
    made |= {"delivered": delivered, "with_unit": with_unit, "letter": _letter, "line": _line}
    made |= {"kinds": [(KINDS[key], number) for key, number in counts.items() if number]}
    made |= {"legend": _legend(report)}
    if binned is not None:
        of_each = [runs.get(row["device"], []) for row, _ in found]
        made["holed"] = [one for one in of_each if not _is_whole(one, binned.bins)]
        made["step"] = duration(binned.width_s * 1000)
        common = [outage for outage in report.outages if outage.device is None]
        made["marks"] = [(_left(one, binned), one.kind) for one in common[:_MARKS_SHOWN]]
    return made


def delivered(milliseconds: float | None) -> str:
    """A delay measured as 0 ms is shown as 1 ms: the clocks are no more precise."""
    return duration(milliseconds if milliseconds is None else max(milliseconds, 1.0))


def _values(values: list[Value]) -> list[str]:
    """Values of the same time together, the newest first."""
    times: dict[str, list[str]] = {}
    for one in values:
        text = f"{one.name} {with_unit(one.value, one.unit)}"
        times.setdefault(moment(one.time), []).append(text)
    newest_first = sorted(times.items(), reverse=True)
    return [f"at {time}: {', '.join(texts)}" for time, texts in newest_first]


def _facts(row: dict, report: Report) -> str:
    """What the opened device shows besides the list, as JSON."""
    items = _values(report.newest.get(row["device"], []))
    items += [
        f"first seen {moment(row['first_seen'])}, last {moment(row['last_seen'])} UTC",
        f"{count(row['readings'], 'reading')}, {row['readings_without_time']:,} of them without a "
        "time",
        f"{row['redelivered']:,} sent twice, stored once",
        f"outbox now {row['backlog_last']:,}, at most {row['backlog_max']:,}",
        f"slowest delivery {delivered(row['max_ms'])}",
    ]
    told = row | {"takeovers": takeovers(row)}
    items += [f"outbox: {words.format(told[name])}" for name, words in _HEALTH if told[name]]
    is_shown = any(one.name == "battery" for one in report.newest.get(row["device"], []))
    if row["battery"] == row["battery"] and not is_shown:
        items.append(f"battery {row['battery']:g}")
    if row["reset_cause"] == row["reset_cause"]:
        items.append(f"last reset cause {row['reset_cause']:g}")
    return json.dumps(items)


def _runs(binned: Binned) -> dict[str, Runs]:
    """device -> (first bin, length) of each period without a gap."""
    found = {}
    for device, rows in binned.active.groupby("device"):
        bins = sorted(rows["bin"])
        starts = [bins[0], *(b for a, b in pairwise(bins) if b != a + 1)]
        ends = [*(a for a, b in pairwise(bins) if b != a + 1), bins[-1]]
        found[device] = [(int(a), int(b - a + 1)) for a, b in zip(starts, ends, strict=True)]
    return found


def _line(runs: Runs, y: float) -> str:
    return "".join(f"M{first} {y:g}h{length}" for first, length in runs)


def _is_whole(runs: Runs, bins: int) -> bool:
    """Ignores the first and the last step, which are incomplete."""
    return len(runs) == 1 and runs[0][0] <= 1 and sum(runs[0]) >= bins - 1


def _left(outage: Outage, binned: Binned) -> str:
    place = (outage.begin - binned.origin) / pd.Timedelta(seconds=binned.width_s * binned.bins)
    return f"{min(max(place, 0), 1):.1%}"


def _letter(kind: str) -> str:
    return LETTERS.get(kind, OTHER)


def _legend(report: Report) -> str:
    """Explains the letters on the charts; empty when there are none."""
    common = dict.fromkeys(one.kind for one in report.outages if one.device is None)
    kinds = dict.fromkeys(one.kind for one in report.outages if one.kind not in common)
    words = [f"{_letter(kind)} {kind}" for kind in common]
    if kinds:
        own = ", ".join(f"{_letter(kind)} {kind}" for kind in kinds)
        words.append(f"on the charts of a device {own}")
    return f" Marks: {', '.join(words)}." if words else ""

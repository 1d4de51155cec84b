"""The section about the devices: a picture of all of them over time, and the list that the page's
script sorts and filters."""

from __future__ import annotations

import json
from itertools import pairwise

import pandas as pd

from outpost_tools.attention.attention import KINDS, Finding, takeovers
from outpost_tools.readings.report.data import Binned, Outage, Report
from outpost_tools.readings.report.newest import Value
from outpost_tools.text.words import LETTERS, OTHER, count, duration, escape, moment, with_unit

Found = list[tuple[dict, list[Finding]]]
ROWS_AT_FIRST = 50  # as in report.js
_PICTURE_FROM = 5  # devices: for fewer, the list is enough
_MARKS_SHOWN = 40
_VALUES_SHOWN = 4
# Sort keys of the list: the label of the order, and the head of the column.
_ORDERS = {
    "": "needs attention",
    "name": "name",
    "seen": "last seen",
    "messages": "messages",
    "lost": "lost",
    "open": "may still come",
    "p50": "median delivery",
    "p99": "99 % delivered in",
    "boots": "boots",
    "backlog": "backlog",
}
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
_HEADS = (
    ("name", "name", "device"),
    ("", "states", "state"),
    ("", "strip text", "newest values, and when there were readings"),
    ("seen", "", "last seen"),
    ("messages", "", "messages"),
    ("lost", "", "lost"),
    ("open", "", "may<br>come"),
    ("p50", "", "delivery<br>median"),
    ("p99", "", "delivery<br>99 %"),
    ("boots", "", "boots"),
    ("backlog", "", "backlog"),
)


def section(report: Report, found: Found) -> str:
    if not found:
        return ""
    runs = _runs(report.binned) if report.binned is not None else {}
    picture = (
        _picture(report, found, runs)
        if report.binned is not None and len(found) >= _PICTURE_FROM
        else ""
    )
    body = "".join(
        _row(place, row, findings, report, runs) for place, (row, findings) in enumerate(found)
    )
    head = "".join(_head(*one) for one in _HEADS)
    strip = (
        f" Each strip is the whole time in steps of {duration(report.binned.width_s * 1000)}: "
        "empty is silence."
        if runs
        else ""
    )
    return (
        f"<h2>Devices, those that need attention first</h2>{picture}"
        f'<p class="quiet">Choose a device to see its readings.{strip}</p>{_tools(found)}'
        f'<table class="fleet"><thead><tr>{head}</thead><tbody>{body}</tbody></table>'
        '<button class="more" id="more" type="button" hidden></button>'
    )


def _head(key: str, style: str, text: str) -> str:
    inner = f'<button type="button">{text}</button>' if key else text
    return f'<th class="{style}"{f" data-k={key}" if key else ""}>{inner}'


def _tools(found: Found) -> str:
    """Hidden until the script runs."""
    counts = {
        key: sum(any(f.key == key for f in findings) for _, findings in found) for key in KINDS
    }
    states = "".join(
        f'<option value="{key}">{kind.sign} {kind.many} ({counts[key]:,})</option>'
        for key, kind in KINDS.items()
        if counts[key]
    )
    orders = "".join(f'<option value="{key}">{text}</option>' for key, text in _ORDERS.items())
    return (
        '<div class="tools" hidden><label>Name has<input id="filter" type="search" '
        'size="12"></label>'
        f'<label>State<select id="state"><option value="">any</option>{states}</select></label>'
        f'<label>Order<select id="order">{orders}</select></label><output id="shown" '
        'class="quiet"></output></div>'
    )


def _row(place: int, row: dict, findings: list[Finding], report: Report, runs: dict) -> str:
    cells = [
        (
            "num",
            "last seen",
            "seen",
            round(row["last_seen"].timestamp()),
            f"{row['last_seen']:%m-%d %H:%M:%S}",
        ),
        _number(row, "messages", "messages", "messages"),
        _number(row, "missing_closed", "lost", "lost"),
        _number(row, "missing_open", "open", "may come"),
        ("num", "delivery median", "p50", row["p50_ms"], delivered(row["p50_ms"])),
        ("num", "delivery 99 %", "p99", row["p99_ms"], delivered(row["p99_ms"])),
        _number(row, "boots", "boots", "boots"),
        _number(row, "backlog_last", "backlog", "backlog"),
    ]
    later = " class=later" if place >= ROWS_AT_FIRST else ""
    states = " ".join(finding.key for finding in findings)
    chips = "".join(
        f'<span class="chip {f.key}">{f.kind.sign} {escape(f.text)}</span>' for f in findings
    )
    facts = escape(json.dumps(_facts(row, report)))
    return (
        f'<tr{later} data-i="{place}" data-s="{states}" data-f="{facts}">'
        '<td class="name"><button type="button" '
        f'aria-expanded="false">{escape(row["device"])}</button>'
        f'<td class="states">{chips}<td class="strip">{_newest(row["device"], report)}'
        f"{_strip(runs.get(row['device'], []), report)}"
        + "".join(
            f'<td class="{style}" data-l="{label}" data-k="{k}" data-v="{v}">{text}'
            for style, label, k, v, text in cells
        )
    )


def delivered(milliseconds: float | None) -> str:
    """A delay measured as 0 ms is shown as 1 ms: the clocks are no more precise."""
    return duration(milliseconds if milliseconds is None else max(milliseconds, 1.0))


def _number(row: dict, column: str, key: str, label: str) -> tuple[str, str, str, float, str]:
    """On a phone a 0 is hidden."""
    return ("num" if row[column] else "num zero", label, key, row[column], f"{row[column]:,}")


def _newest(device: str, report: Report) -> str:
    """The first of its values; the opened device shows all."""
    values = report.newest.get(device, [])
    texts = [(one.name, with_unit(one.value, one.unit)) for one in values[:_VALUES_SHOWN]]
    shown = "".join(f"<span>{escape(name)} <b>{escape(text)}</b></span> " for name, text in texts)
    more = len(values) - _VALUES_SHOWN
    return f'<div class="newest">{shown}{f"and {more:,} more" if more > 0 else ""}</div>'


def _values(values: list[Value]) -> list[str]:
    """Values of the same time together, the newest first."""
    times: dict[str, list[str]] = {}
    for one in values:
        text = f"{one.name} {with_unit(one.value, one.unit)}"
        times.setdefault(moment(one.time), []).append(text)
    newest_first = sorted(times.items(), reverse=True)
    return [f"at {time}: {', '.join(texts)}" for time, texts in newest_first]


def _facts(row: dict, report: Report) -> list[str]:
    """What the opened device shows besides the list."""
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
    return items + (
        [f"last reset cause {row['reset_cause']:g}"]
        if row["reset_cause"] == row["reset_cause"]
        else []
    )


def _runs(binned: Binned) -> dict[str, list[tuple[int, int]]]:
    """device -> (first bin, length) of each period without a gap."""
    found = {}
    for device, rows in binned.active.groupby("device"):
        bins = sorted(rows["bin"])
        starts = [bins[0], *(b for a, b in pairwise(bins) if b != a + 1)]
        ends = [*(a for a, b in pairwise(bins) if b != a + 1), bins[-1]]
        found[device] = [(int(a), int(b - a + 1)) for a, b in zip(starts, ends, strict=True)]
    return found


def _line(runs: list[tuple[int, int]], y: float) -> str:
    return "".join(f"M{first} {y:g}h{length}" for first, length in runs)


def _strip(runs: list[tuple[int, int]], report: Report) -> str:
    if report.binned is None:
        return ""
    path = f'<path d="{_line(runs, 0.5)}"/>' if runs else ""
    share = f"readings in {sum(length for _, length in runs) / report.binned.bins:.0%} of the time"
    box = f'viewBox="0 0 {report.binned.bins} 1" preserveAspectRatio="none"'
    return f'<svg {box} role="img" aria-label="{share}">{path}</svg>'


def _picture(report: Report, found: Found, runs: dict) -> str:
    """One line per device that was silent at some time, in the order of the list; the others would
    only fill the page."""
    binned = report.binned
    holed = [
        runs.get(row["device"], [])
        for row, _ in found
        if not _is_whole(runs.get(row["device"], []), binned.bins)
    ]
    step = f"in every step of {duration(binned.width_s * 1000)}"
    if not holed:
        return f"<p>All {len(found):,} devices took readings {step}.</p>"
    path = "".join(_line(run, place + 0.5) for place, run in enumerate(holed))
    height = min(max(6 * len(holed), 18), 420)
    box = (
        f'viewBox="0 0 {binned.bins} {len(holed)}" preserveAspectRatio="none" '
        f'style="height:{height}px"'
    )
    rest = (
        f"; the other {len(found) - len(holed):,} took readings {step}"
        if len(holed) < len(found)
        else ""
    )
    note = (
        f"{count(len(holed), 'device')} with silence, a line each, in the order of the list: empty "
        f"is silence{rest}."
    )
    return (
        f'<p class="quiet">{note}{legend(report)}</p><div class="picture">{_marks(report)}'
        f'<svg {box} role="img" aria-label="{note}"><path d="{path}"/></svg>'
        f'<div class="ends"><span>{moment(report.begin)}</span><span>{moment(report.end)} '
        "UTC</span></div></div>"
    )


def _is_whole(runs: list[tuple[int, int]], bins: int) -> bool:
    """Ignores the first and the last step, which are incomplete."""
    return len(runs) == 1 and runs[0][0] <= 1 and sum(runs[0]) >= bins - 1


def _marks(report: Report) -> str:
    """Letters above the picture for events that concerned all devices."""
    common = [outage for outage in report.outages if outage.device is None][:_MARKS_SHOWN]
    if not common:
        return ""
    return f'<div class="marks">{"".join(_mark(outage, report.binned) for outage in common)}</div>'


def _mark(outage: Outage, binned: Binned) -> str:
    place = (outage.begin - binned.origin) / pd.Timedelta(seconds=binned.width_s * binned.bins)
    return (
        f'<span style="left:{min(max(place, 0), 1):.1%}">{LETTERS.get(outage.kind, OTHER)}</span>'
    )


def legend(report: Report) -> str:
    """Explains the letters on the charts; empty when there are none."""
    common = dict.fromkeys(one.kind for one in report.outages if one.device is None)
    kinds = dict.fromkeys(one.kind for one in report.outages if one.kind not in common)
    words = [f"{LETTERS.get(kind, OTHER)} {escape(kind)}" for kind in common]
    if kinds:
        own = ", ".join(f"{LETTERS.get(kind, OTHER)} {escape(kind)}" for kind in kinds)
        words.append(f"on the charts of a device {own}")
    return f" Marks: {', '.join(words)}." if words else ""

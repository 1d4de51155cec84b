"""The page: sections of HTML about what needs attention. Text from messages and files goes through
`escape`.

Without its script the page is complete except for charts, sorting and filtering. It needs no
network: style, script, plotly and data are inside.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pandas as pd
from plotly.offline import get_plotlyjs

from outpost_tools.attention import attention
from outpost_tools.boards.outbox.wear import ENDURANCE
from outpost_tools.errors import ToolError
from outpost_tools.machine.files import replace_text
from outpost_tools.readings.report import fleet, pack
from outpost_tools.readings.report.data import Report, findings, places
from outpost_tools.readings.report.outages import Fold, folded
from outpost_tools.text.words import LETTERS, OTHER, count, duration, escape, moment, printable

_GAPS_SHOWN = 30
_WEAR_SHOWN = 12
_NAMES_SHOWN = 6
_EVENTS_SHOWN = 60
_FOLDS = 12
_DAYS_A_YEAR = 365.25
_LEAST_WEAR_S = 3600.0  # an outbox's first minutes say nothing about its years


def write(path: Path, content: str) -> None:
    """Raises ToolError; an older page then stays as it is."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, content)  # `outpost live` shows it to browsers meanwhile
    except OSError as error:
        raise ToolError(f"{path}: cannot write the page: {error.strerror}") from None


def render(report: Report, title: str, headline: str = "") -> str:
    """The whole page as text. headline: said before all else."""
    found = findings(report)
    sections = [
        f"<h1>{escape(title)}</h1>{_headline(headline)}{_period(report)}",
        _verdict(found, report) + _advice(found, report) + _facts(report),
        fleet.section(report, found),
        _latency(report),
        _gaps(report),
        _wear(report),
        _quarantine(report),
        _outages(report),
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" '
        'href="data:,">'
        f"<style>{_file('report.css')}</style>"
        "<script>document.documentElement.className='js'</script></head>"
        f"<body>{''.join(sections)}{_scripts(report, found)}</body></html>\n"
    )


def _file(name: str) -> str:
    return (
        resources.files("outpost_tools.readings.report").joinpath(name).read_text(encoding="utf-8")
    )


def _scripts(report: Report, found: list) -> str:
    """Base64 text cannot end a <script> element, and report.js is our own: nothing here needs
    escaping."""
    packed = ""
    if report.binned is not None:
        series = pack.details(report, [row["device"] for row, _ in found])
        library = pack.compressed(get_plotlyjs().encode())  # 4.9 MB would be most of the page
        texts = {"series": series, "plotly": library}
        packed = "".join(
            f'<script type="text/plain" id="{name}">{text}</script>' for name, text in texts.items()
        )
    return f"{packed}<script>{_file('report.js')}</script>"


def _headline(text: str) -> str:
    return f'<p class="headline">{escape(text)}</p>' if text else ""


def _verdict(found: list, report: Report) -> str:
    parts = " ".join(
        f"<span>{part}</span>" for part in attention.verdict(found, *_collectors(report))
    )
    return f'<p class="verdict">{parts}</p>'


def _collectors(report: Report) -> tuple[int, int, int]:
    return report.damaged, report.taken_over, report.clock_wrong


def _advice(found: list, report: Report) -> str:
    """What to do, for people who do not know the terms in the list above."""
    rows = [
        [
            ("wide text", "", f"<b>{kind.sign} {kind.many}</b>"),
            ("wide text", "", _names(names)),
            ("wide text", "", kind.todo),
        ]
        for kind, names in attention.advice(found, *_collectors(report))
    ]
    if not rows:
        return ""
    head = [("text", "trouble"), ("text", "devices"), ("text", "what to do")]
    return (
        f'<details class="advice"><summary>What to do about it</summary>{_table(head, rows)}'
        "</details>"
    )


def _names(names: list[str]) -> str:
    shown = ", ".join(escape(name) for name in names[:_NAMES_SHOWN])
    more = len(names) - _NAMES_SHOWN
    return shown + (f" and {more:,} more" if more > 0 else "")


def _period(report: Report) -> str:
    if report.begin is None:
        return f'<p class="quiet">{_nothing(report)}</p>'
    span = duration((report.end - report.begin).total_seconds() * 1000)
    ends = [f"<span>{moment(end)}</span>" for end in (report.begin, report.end)]
    return (
        f'<p class="quiet period">Readings from {ends[0]} to {ends[1]} UTC ({span}). Values, '
        "charts, delivery times, wear and quarantine are of this time; all other counts are since "
        "the first message.</p>"
    )


def _nothing(report: Report) -> str:
    begin, end = report.range.since, report.range.until
    words = "" if begin is None else f" at {moment(begin)} UTC or later"
    words += "" if end is None else f" before {moment(end)} UTC"
    return f"No reading has a time{words}."


def _facts(report: Report) -> str:
    devices = report.devices
    missing = int(devices["missing_closed"].sum())
    items = [
        (f"{len(devices):,}", "devices", False),
        (f"{int(devices['messages'].sum()):,}", "messages", False),
        (f"{int(devices['readings'].sum()):,}", "readings", False),
        (f"{missing:,}", "lost permanently", missing > 0),
        (f"{int(devices['missing_open'].sum()):,}", "may still come", False),
        (f"{int(devices['redelivered'].sum()):,}", "sent twice, stored once", False),
        (f"{int(report.quarantine['count'].sum()):,}", "quarantined", False),
        (fleet.delivered(report.delay_ms.get("p50")), "median delivery", False),
        (fleet.delivered(report.delay_ms.get("p99")), "99 % delivered in", False),
    ]
    boxes = "".join(
        f"<li{' class=bad' if bad else ''}><b>{number}</b>{label}</li>"
        for number, label, bad in items
    )
    return f'<ul class="facts">{boxes}</ul>'


def _latency(report: Report) -> str:
    if report.binned is None or not report.delay_ms:
        return ""
    delay = {name: fleet.delivered(value) for name, value in report.delay_ms.items()}
    title = (
        f"Delivery latency: half within {delay['p50']}, 99 % within {delay['p99']}, the slowest "
        f"{delay['max']}"
    )
    note = (
        "From reading to arrival, all devices, by the time of the reading. A hill is a time that "
        "boards spent offline: their readings"
        f" waited in flash.{fleet.legend(report)}"
    )
    return f'<h2>{title}</h2><p class="quiet">{note}</p><div id="latency" class="chart lazy"></div>'


def _gaps(report: Report) -> str:
    gaps = report.gaps
    if gaps.empty:
        return "<h2>Gaps: none</h2><p>No sequence number of any stream is missing.</p>"
    lost, waiting = (gaps[gaps["state"] == state] for state in ("closed", "open"))
    missing = count(lost["count"].sum(), "message")
    title = (
        f"{missing} lost in {count(len(lost), 'gap')}, {waiting['count'].sum():,} may still come"
    )
    words = {
        "closed": "✕ lost: the board no longer holds it",
        "open": "◐ may still come: the board may hold it",
    }
    rows = [
        [
            ("wide text", "", f"<b>{escape(gap['device'])}</b>"),
            ("text", "stream", f"<code>{escape(gap['stream'])}</code>"),
            ("num", "messages", f"{gap['count']:,}"),
            ("num", "numbers", f"{gap['first']:,}–{gap['last']:,}"),
            ("wide text", "", words[gap["state"]]),
        ]
        for gap in gaps.head(_GAPS_SHOWN).to_dict("records")
    ]
    table = _table(
        [
            ("text", "device"),
            ("text", "stream"),
            ("", "messages"),
            ("", "numbers"),
            ("text", "state"),
        ],
        rows,
    )
    note = "Missing sequence numbers of each stream; lost ones first, then long ones first."
    return (
        f"<h2>Gaps: {title}</h2><p "
        f'class="quiet">{note}</p>{table}{_rest(len(gaps) - _GAPS_SHOWN, "gaps")}'
    )


def _wear(report: Report) -> str:
    wear = report.wear
    if wear.empty:
        note = (
            "A board that sends the metrics <code>erases</code> and <code>outbox_blocks</code> "
            "appears here."
        )
        return f'<h2>Flash wear: not reported</h2><p class="quiet">{note}</p>'
    wear = _worn(wear)
    rows = [_wear_row(row) for row in wear.head(_WEAR_SHOWN).to_dict("records")]
    known = wear["years"].dropna()
    unknown = "erases are reported, blocks are not"
    if wear["blocks"].notna().any():
        unknown = "too short a time to tell"
    title = f"the first board in {known.min():,.1f} years" if len(known) else unknown
    note = (
        f"Years until each block has {ENDURANCE:,} erases, at the rate of this time; reported by "
        f"{count(len(wear), 'board')}."
    )
    head = [("text", "device"), ("", "erases"), ("", "erases a day"), ("", "blocks"), ("", "years")]
    more = len(wear) - _WEAR_SHOWN
    rest = (
        f'<p class="quiet">{count(more, "more board lasts", "more boards last")} longer.</p>'
        if more > 0
        else ""
    )
    return f'<h2>Flash wear: {title}</h2><p class="quiet">{note}</p>{_table(head, rows)}{rest}'


def _worn(wear: pd.DataFrame) -> pd.DataFrame:
    """Adds erases per day and years left; those that wear out first come first."""
    wear = wear.assign(day=wear["erases"] / wear["seconds"] * 86_400)
    is_known = (wear["day"] > 0) & (wear["seconds"] >= _LEAST_WEAR_S)
    years = ENDURANCE * wear["blocks"] / wear["day"].where(is_known) / _DAYS_A_YEAR
    wear = wear.assign(years=years, place=wear["device"].map(places(wear["device"])))
    return wear.sort_values(
        ["years", "day", "place"], ascending=[True, False, True], na_position="last"
    )


def _wear_row(row: dict) -> list[tuple[str, str, str]]:
    """Cells; an unknown number is NaN, which is unequal to itself."""
    blocks = f"{row['blocks']:,.0f}" if row["blocks"] == row["blocks"] else "not reported"
    years = f"{row['years']:,.1f}" if row["years"] == row["years"] else "-"
    return [
        ("wide text", "", f"<b>{escape(row['device'])}</b>"),
        ("num", "erases", f"{row['erases']:,.0f}"),
        ("num", "a day", f"{row['day']:,.1f}"),
        ("num", "blocks", blocks),
        ("num", "years left", years),
    ]


def _quarantine(report: Report) -> str:
    if report.quarantine.empty:
        return "<h2>Quarantine: empty</h2><p>Everything that arrived was a message.</p>"
    most = report.quarantine["count"].max()
    rows = [_quarantined(row, most) for row in report.quarantine.to_dict("records")]
    title = f"{count(report.quarantine['count'].sum(), 'payload')} for {count(len(rows), 'reason')}"
    head = [
        ("text", "reason"),
        ("", "count"),
        ("text", ""),
        ("text", "topics"),
        ("", "last"),
        ("text", "one payload"),
    ]
    note = "Frames that are not messages, or have another's number; the table keeps their bytes."
    return f'<h2>Quarantine: {title}</h2><p class="quiet">{note}</p>{_table(head, rows)}'


def _quarantined(row: dict, most: int) -> list[tuple[str, str, str]]:
    bar = f'<span class="bar" style="width:{max(3, round(80 * row["count"] / most))}px"></span>'
    topics = ", ".join(escape(topic[:80]) for topic in row["topics"][:3])
    topics += f" and {len(row['topics']) - 3:,} more" if len(row["topics"]) > 3 else ""
    return [
        ("wide text", "", f"<b>{escape(row['reason'][:100])}</b>"),
        ("num", "count", f"{row['count']:,}"),
        ("text", "", bar),
        ("wide text", "topics", topics),
        ("wide num", "last", moment(row["last"])),
        ("wide text", "payload", f"<code>{escape(printable(row['example']))}</code>"),
    ]


def _outages(report: Report) -> str:
    if not report.outages:
        return ""
    folds = folded(report.outages, _fold_span(report))
    rows = [_fold_row(fold) for fold in folds[:_EVENTS_SHOWN]]
    head = [("text", "time, UTC"), ("text", "what"), ("text", "device"), ("", "lasted")]
    more = sum(len(fold.outages) for fold in folds[_EVENTS_SHOWN:])
    rest = (
        f'<p class="quiet">{more:,} earlier ones are in the file of <code>--events</code>.</p>'
        if more > 0
        else ""
    )
    note = (
        f'<p class="quiet">The newest first; those of one kind within '
        f"{duration(_fold_span(report).total_seconds() * 1000)} of each other in one line.</p>"
        if len(folds) < len(report.outages)
        else ""
    )
    return f"<h2>Events: {len(report.outages):,}</h2>{note}{_table(head, rows)}{rest}"


def _fold_span(report: Report) -> pd.Timedelta:
    """At most _FOLDS lines of one kind in the time of the page."""
    first, last = report.outages[0].begin, max(one.end for one in report.outages)
    begin = first if report.begin is None else min(first, report.begin)
    end = last if report.end is None else max(last, report.end)
    return (end - begin) / _FOLDS


def _fold_row(fold: Fold) -> list[tuple[str, str, str]]:
    times = len(fold.outages)
    when = moment(fold.begin) + (f" to {fold.end:%H:%M:%S}" if times > 1 else "")
    what = f"{LETTERS.get(fold.kind, OTHER)} {escape(fold.kind)}"
    what += f", {times:,} times" if times > 1 else ""
    lasted = duration(fold.down.total_seconds() * 1000) if fold.down else ""
    lasted += " in all" if lasted and times > 1 else ""
    return [
        ("text", "", when),
        ("wide text", "", what),
        ("wide text", "device", _names(fold.devices) or "all"),
        ("num", "lasted", lasted),
    ]


def _table(head: list[tuple[str, str]], rows: list[list[tuple[str, str, str]]]) -> str:
    """Cells are (classes, label on a phone, HTML)."""
    top = "".join(f'<th class="{style}">{text}' for style, text in head)
    body = "".join("<tr>" + "".join(_cell(*cell) for cell in row) for row in rows)
    return f"<table><thead><tr>{top}</thead><tbody>{body}</tbody></table>"


def _cell(style: str, label: str, text: str) -> str:
    named = f' data-l="{label}"' if label else ""
    return f'<td class="{style}"{named}>{text}'


def _rest(number: int, table: str) -> str:
    return (
        f'<p class="quiet">{number:,} more are in the table <code>{table}</code>.</p>'
        if number > 0
        else ""
    )

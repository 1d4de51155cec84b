"""The overview: what needs attention, then a card for each board. The same functions make the whole
page and the part of it that changed. All text of others goes through escape().

Complete without its script, but for what is new. Knows the fleet, no network.
"""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote

from outpost_tools.common import attention
from outpost_tools.common.words import count, escape, natural
from outpost_tools.live import charts
from outpost_tools.live.board import Board, Sensor
from outpost_tools.live.fleet import Fleet

_NAMES_SHOWN = 6
_NO_BOARD = (
    "<p>No board has sent anything yet. With <code>outpost run HOME</code>, "
    "<code>outpost setup HOME</code> sets up a board; with another broker, "
    "<code>outpost provision</code> does. Is one set up already? <code>outpost monitor</code> "
    "shows what it sends. Values appear here by themselves.</p>"
)


def document(title: str, body: str, fleet: Fleet, cursor: str, board: str = "") -> str:
    """cursor: where events.py goes on after this page. board: the only one on it."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        '<link rel="icon" href="/static/icon.svg"><link rel="stylesheet" href="/static/page.css">'
        '<link rel="stylesheet" href="/static/live.css">'
        '<script src="/static/live.js" defer></script></head>'
        f'<body data-cursor="{cursor}" data-board="{escape(board)}" data-now="{fleet.clock()}">'
        '<a class="skip" href="#main">Skip to the values</a>'
        f"{body}</body></html>\n"
    )


def overview(fleet: Fleet, cursor: str, *, has_report: bool = False) -> str:
    boards = fleet.in_order()
    cards = "".join(card(board) for board in boards)
    tools = _tools(len(boards)) if len(boards) > 1 else ""
    body = (
        '<header><h1>Outpost, live</h1><p id="link" class="link" role="status">'
        "values as of the loading of this page</p></header>"
        f'<main id="main"><div id="head">{head(fleet)}</div>{tools}'
        f'<h2 class="unseen">Boards</h2><div id="cards" class="cards">{cards}</div>'
        f"{footer(has_report=has_report)}</main>"
    )
    return document("Outpost, live", body, fleet, cursor)


def footer(*, has_report: bool = False) -> str:
    report = '<p><a href="/report">The report of the tables</a></p>' if has_report else ""
    return (
        f'<footer>{report}<p>Read-only. The collectors\' log is what is shown; <a href="/metrics">'
        "/metrics</a> has the newest values for Prometheus. Times are those of the readings, in "
        "your time zone.</p></footer>"
    )


def _tools(boards: int) -> str:
    return (
        '<div class="tools" hidden><label>Find a board or a sensor<input id="find" type="search" '
        'autocomplete="off" spellcheck="false"></label><label class="check"><input id="only" '
        'type="checkbox"> only what needs attention</label>'
        f'<span id="shown" role="status">{count(boards, "board")}</span></div>'
    )


def head(fleet: Fleet) -> str:
    """The verdict, what to do about it, and what is to be said of the log itself."""
    found = fleet.found()
    verdict = " ".join(
        f"<span>{part}</span>" for part in attention.verdict(found, *fleet.of_collectors)
    )
    return (
        f'<p class="verdict" role="status">{verdict}</p>{"" if fleet.boards else _NO_BOARD}'
        f"{_advice(attention.advice(found, *fleet.of_collectors))}{_of_log(fleet)}"
    )


def _advice(advice: list[tuple[attention.Kind, list[str]]]) -> str:
    if not advice:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{kind.sign} {kind.many}</th><td>{_names(names)}</td>'
        f"<td>{kind.todo}</td></tr>"
        for kind, names in advice
    )
    return (
        '<details class="advice"><summary>What to do about it</summary><table><thead><tr>'
        '<th scope="col">trouble</th><th scope="col">boards</th><th scope="col">what to do</th>'
        f"</tr></thead><tbody>{rows}</tbody></table></details>"
    )


def _names(names: list[str]) -> str:
    names = sorted(names, key=natural)
    shown = ", ".join(_link(name) for name in names[:_NAMES_SHOWN])
    more = len(names) - _NAMES_SHOWN
    return shown + (f" and {more:,} more" if more > 0 else "")


def _link(name: str) -> str:
    return f'<a href="/board/{quote(name, safe="")}">{escape(name)}</a>'


def _of_log(fleet: Fleet) -> str:
    said = []
    if fleet.is_collected is False:
        said.append(
            "No collector writes to this log now, so nothing new appears: <code>outpost collect"
            "</code> with the same <code>--log</code>."
        )
    said += [
        f"The job {escape(name)} of <code>outpost run</code> failed: {escape(why)}."
        for name, why in fleet.failed_jobs.items()
    ]
    if fleet.reading is not None:
        said.append(f"Reading the history, the newest first: {fleet.reading:.0%} so far.")
    if fleet.refused:
        reasons = "; ".join(f"{escape(r)} ({n:,})" for r, n in fleet.refused.most_common(5))
        said.append(
            f"{count(fleet.refused.total(), 'frame')} of the log are no messages: {reasons}."
        )
    if fleet.not_shown:
        said.append(f"{count(len(fleet.not_shown), 'more board')} not shown: too many for a page.")
    return "".join(f'<p class="note">{one}</p>' for one in said)


def card(board: Board, *, is_alone: bool = False) -> str:
    """An article. is_alone: on the board's own page, which has its name already. data-s: a sensor's
    number, for live.js."""
    name = escape(board.name)
    sensors = sorted(board.sensors.values(), key=lambda one: natural(one.name))
    rows = "".join(_row(sensor) for sensor in sensors)
    more = (
        f'<p class="note">{count(board.hidden_sensors, "reading")} of more sensors than a board '
        "may have here, not shown.</p>"
        if board.hidden_sensors
        else ""
    )
    worst = board.findings[0].kind if board.findings else attention.KINDS["fine"]
    needs = "yes" if worst.needs_attention else "no"
    return (
        f'<article class="card" id="b{board.number}" data-needs="{needs}" data-name="{name}" '
        f'aria-labelledby="n{board.number}">{_heading(board, is_alone)}'
        f"{states(board)}{facts(board)}"
        f'<table class="values"><caption class="unseen">Newest values of {name}</caption>'
        '<thead class="unseen"><tr><th scope="col">sensor</th><th scope="col">value</th>'
        '<th scope="col">lately</th><th scope="col">age</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>{more}</article>"
    )


def _heading(board: Board, is_alone: bool) -> str:
    if is_alone:
        return f'<h2 id="n{board.number}">Now</h2>'
    return f'<h3 id="n{board.number}">{_link(board.name)}</h3>'


def states(board: Board) -> str:
    findings = board.findings or [attention.Finding("fine", "fine")]
    chips = "".join(
        f'<li class="chip {one.key}"><span aria-hidden="true">{one.kind.sign}</span> '
        f"{escape(one.text)}</li>"
        for one in findings
    )
    return f'<ul class="states" aria-label="state">{chips}</ul>'


def facts(board: Board) -> str:
    """Age, battery, signal, backlog, firmware."""
    items = [("seen", f"{_time(board.last_seen_ms)}", f' data-seen="{board.number}"')]
    for label, sensor in (
        ("battery", board.battery),
        ("signal", board.signal),
        ("firmware", board.firmware),
    ):
        if sensor is not None:
            text = escape(charts.value_text(sensor, sensor.newest.value))
            items.append((label, text, f' data-v="{sensor.number}"'))
    items.append(("backlog", f"{board.backlog:,}", f' data-backlog="{board.number}"'))
    return (
        '<dl class="facts">'
        + "".join(f"<div><dt>{label}</dt><dd{at}>{text}</dd></div>" for label, text, at in items)
        + "</dl>"
    )


def _row(sensor: Sensor) -> str:
    newest = sensor.newest
    value = escape(charts.value_text(sensor, newest.value))
    points = " ".join(f"{point.time_ms}:{point.value:.6g}" for point in sensor.recent)
    return (
        f'<tr data-s="{sensor.number}"><th scope="row">{escape(sensor.name)}</th>'
        f'<td class="value" data-v="{sensor.number}">{value}</td>'
        f'<td class="lately"><svg class="spark" data-p="{points}" viewBox="0 0 100 24" '
        f'preserveAspectRatio="none" role="img" aria-label="{escape(charts.recent_words(sensor))}">'
        f'<path d="{charts.sparkline(sensor.recent)}"/></svg></td>'
        f'<td class="age">{_time(newest.time_ms, is_arrival=sensor.is_arrival)}</td></tr>'
    )


def _time(time_ms: int, *, is_arrival: bool = False) -> str:
    """The moment, for live.js to make an age of."""
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    arrival = ' data-arrival="yes"' if is_arrival else ""
    return (
        f'<time data-ms="{time_ms}" data-as="age" datetime="{moment:%Y-%m-%dT%H:%M:%SZ}"{arrival}>'
        f"{moment:%Y-%m-%d %H:%M:%S} UTC</time>"
    )

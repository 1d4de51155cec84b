"""The overview: what needs attention, then a card for each board. The same functions make the whole
page and the parts that change. All text from others goes through escape().

Without its script the page is complete, but does not update. Knows the fleet, no network.
"""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from outpost_tools.common import attention
from outpost_tools.common.words import count, escape, natural
from outpost_tools.live import charts, words
from outpost_tools.live.board import Board, Sensor
from outpost_tools.live.fleet import Fleet
from outpost_tools.store.base import Store

_NAMES_SHOWN = 6


def document(title: str, body: str, fleet: Fleet, cursor: str, board: str = "") -> str:
    """cursor: where events.py continues after this page. board: the only board on it; "": all."""
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
    cards = "".join(card(fleet, board) for board in boards)
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
        f'<footer>{report}<p>Read-only. This page shows the collectors\' log; <a href="/metrics">'
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
    """The verdict, what to do about it, and notes about the log itself."""
    found, mood = fleet.found(), _mood(fleet)
    parts = attention.verdict(found, *fleet.of_collectors)
    if mood == "stale":
        are = f"All {len(found):,} devices were" if len(found) > 1 else "The one device was"
        parts = [f"{are} fine when last heard."]
    verdict = " ".join(f"<span>{part}</span>" for part in parts)
    first = "" if fleet.boards or fleet.reading is not None else _no_board(fleet)
    return (
        f'<p class="verdict {mood}" role="status">{verdict}</p>{first}'
        f"{_advice(attention.advice(found, *fleet.of_collectors))}{_of_log(fleet)}"
    )


def _mood(fleet: Fleet) -> str:
    """Selects the colour of the verdict. stale: nothing was wrong, but no collector writes to the
    log."""
    if any(fleet.of_collectors) or any(board.needs_attention for board in fleet.boards.values()):
        return "trouble"
    if not fleet.boards:
        return "empty"
    return "stale" if fleet.is_collected is False else "calm"


def _no_board(fleet: Fleet) -> str:
    """How to set up the first board: in the browser with `outpost run`, otherwise by commands."""
    if fleet.home is not None:
        todo = f"<p>Set one up in the browser:</p>{command(f'outpost setup {_path(fleet.home)}')}"
    else:
        todo = (
            "<p>Write a board's settings, fill them in, and install them:</p>"
            f"{command('outpost provision --example > board.toml')}"
            f"{command('outpost flash --board BOARD --port PORT --settings board.toml')}"
        )
    return (
        f'<section class="first"><h2>Set up the first board</h2>{todo}<p>Is one set up '
        "already? This shows what it prints, and why it does not connect:</p>"
        f"{command('outpost monitor --port PORT')}<p>Values appear here by "
        "themselves.</p></section>"
    )


def command(line: str) -> str:
    """A command line as HTML. The span keeps an option on one line; a browser would break it after
    a hyphen."""
    text = re.sub(r"(?<= )--\S+", r"<span>\g<0></span>", escape(line))
    return f'<pre class="command" tabindex="0"><code>{text}</code></pre>'


def _path(folder: Path) -> str:
    return shlex.quote(str(folder.absolute()))


def _place(log: Store) -> str:
    return shlex.quote(log.absolute)


def forgetting(fleet: Fleet, board: Board) -> str:
    """For a silent board: the command line that takes it off the page, folded away."""
    is_gone = any(one.key in ("silent", "waiting") for one in board.findings)
    if not is_gone or fleet.log is None:
        return ""
    line = f"outpost live --log {_place(fleet.log)} --forget {shlex.quote(board.name)}"
    return (
        '<details class="forget"><summary>Forget this board</summary><p>It is taken off the page '
        "until it sends again; the log keeps all of it:</p>"
        f"{command(line)}</details>"
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
            f"Not messages of Outpost: {count(fleet.refused.total(), 'frame')} of the log: "
            f"{reasons}."
        )
    if fleet.not_shown:
        said.append(f"{count(len(fleet.not_shown), 'more board')} not shown: too many for a page.")
    return "".join(f'<p class="note">{one}</p>' for one in said)


def card(fleet: Fleet, board: Board, *, is_alone: bool = False) -> str:
    """An article about the board. is_alone: it is on the board's own page, which already has its
    name. data-s is a sensor's number, for live.js."""
    name = escape(board.name)
    sensors = sorted(board.sensors.values(), key=lambda one: natural(one.name))
    measured = "".join(_tile(one) for one in sensors if words.is_measured(board, one))
    own = [one for one in sensors if not words.is_measured(board, one)]
    needs = "yes" if board.needs_attention else "no"
    nothing = '<p class="note">It has sent no measurement yet.</p>'
    values = f'<ul class="values" aria-label="newest values of {name}">{measured}</ul>'
    return (
        f'<article class="card" id="b{board.number}" data-needs="{needs}" data-name="{name}" '
        f'aria-labelledby="n{board.number}"><div class="top">{_heading(board, is_alone)}'
        f"{facts(board)}</div>{states(board)}{values if measured else nothing}"
        f"{_itself(board, own)}{forgetting(fleet, board)}</article>"
    )


def _heading(board: Board, is_alone: bool) -> str:
    if is_alone:
        return f'<h2 id="n{board.number}">Now</h2>'
    return f'<h3 id="n{board.number}">{_link(board.name)}</h3>'


def states(board: Board) -> str:
    findings = board.findings or [attention.Finding("fine", "fine")]
    chips = "".join(
        f'<li class="chip {one.key} {"needs" if one.kind.needs_attention else "calm"}">'
        f'<span aria-hidden="true">{one.kind.sign}</span> {escape(one.text)}</li>'
        for one in findings
    )
    return f'<ul class="states" aria-label="state">{chips}</ul>'


def facts(board: Board) -> str:
    """When the board was last seen, its battery and its signal."""
    items = [("seen", f"{_time(board.last_seen_ms)}", f' data-seen="{board.number}"')]
    for label, sensor in (("battery", board.battery), ("signal", board.signal)):
        if sensor is not None:
            text = escape(words.text(sensor, sensor.newest.value))
            items.append((label, text, f' data-v="{sensor.number}"'))
    return (
        '<dl class="facts">'
        + "".join(f"<div><dt>{label}</dt><dd{at}>{text}</dd></div>" for label, text, at in items)
        + "</dl>"
    )


def _itself(board: Board, own: list[Sensor]) -> str:
    """What the board reports about itself, folded away."""
    rows = [
        f'<div data-s="{one.number}"><dt class="name">{escape(words.label(one.name))}</dt>'
        f'<dd class="value" data-v="{one.number}">{escape(words.text(one, one.newest.value))}</dd>'
        f'<dd class="age">{_time(one.newest.time_ms, is_arrival=one.is_arrival)}</dd></div>'
        for one in own
    ]
    rows.append(
        f'<div><dt>waiting on the board</dt><dd data-backlog="{board.number}">{board.backlog:,}'
        "</dd></div>"
    )
    if board.hidden_sensors:
        text = f"{board.hidden_sensors:,} of sensors beyond the limit for one board"
        rows.append(f"<div><dt>readings not shown</dt><dd>{text}</dd></div>")
    return (
        '<details class="itself"><summary>About the board</summary>'
        f"<dl>{''.join(rows)}</dl></details>"
    )


def _tile(sensor: Sensor) -> str:
    newest = sensor.newest
    value, _, unit = words.text(sensor, newest.value).partition(" ")
    points = " ".join(f"{point.time_ms}:{point.value:.6g}" for point in sensor.recent)
    return (
        f'<li data-s="{sensor.number}"><span class="name">{escape(sensor.name)}</span>'
        f'<span class="value" data-v="{sensor.number}"><b>{escape(value)}</b> {escape(unit)}</span>'
        f'<svg class="spark" data-p="{points}" viewBox="0 0 100 24" preserveAspectRatio="none" '
        f'role="img" aria-label="{escape(charts.recent_words(sensor))}">'
        f'<path d="{charts.sparkline(sensor.recent)}"/></svg>'
        f'<span class="age">{_time(newest.time_ms, is_arrival=sensor.is_arrival)}</span></li>'
    )


def _time(time_ms: int, *, is_arrival: bool = False) -> str:
    """The moment, which live.js replaces by its age."""
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    arrival = ' data-arrival="yes"' if is_arrival else ""
    return (
        f'<time data-ms="{time_ms}" data-as="age" datetime="{moment:%Y-%m-%dT%H:%M:%SZ}"{arrival}>'
        f"{moment:%Y-%m-%d %H:%M:%S} UTC</time>"
    )

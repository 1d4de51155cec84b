"""The overview: what needs attention, then a card for each device. The same functions make the
whole page and the parts that change. All text from others goes through escape().

Without its script the page is complete, but does not update. Knows the fleet, no network.
"""

from __future__ import annotations

from outpost_tools.attention import attention
from outpost_tools.servers.live.card import card, command, link, path
from outpost_tools.servers.live.fleet import Fleet
from outpost_tools.text.words import count, escape, natural

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
    tools = _tools(fleet) if len(boards) > 1 else ""
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


def _tools(fleet: Fleet) -> str:
    word = "device" if fleet.others is not None else "board"
    return (
        f'<div class="tools" hidden><label>Find a {word} or a sensor<input id="find" type="search" '
        'autocomplete="off" spellcheck="false"></label><label class="check"><input id="only" '
        'type="checkbox"> only what needs attention</label>'
        f'<span id="shown" role="status" data-word="{word}s">'
        f"{count(len(fleet.boards), word)}</span></div>"
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
        f"{_advice(fleet, attention.advice(found, *fleet.of_collectors))}{_of_log(fleet)}"
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
        todo = f"<p>Set one up in the browser:</p>{command(f'outpost setup {path(fleet.home)}')}"
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


def _advice(fleet: Fleet, advice: list[tuple[attention.Kind, list[str]]]) -> str:
    if not advice:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{kind.sign} {kind.many}</th><td>{_names(fleet, names)}</td>'
        f"<td>{kind.todo}</td></tr>"
        for kind, names in advice
    )
    return (
        '<details class="advice"><summary>What to do about it</summary><table><thead><tr>'
        '<th scope="col">trouble</th><th scope="col">devices</th><th scope="col">what to do</th>'
        f"</tr></thead><tbody>{rows}</tbody></table></details>"
    )


def _names(fleet: Fleet, names: list[str]) -> str:
    """names: what identifies devices."""
    devices = sorted((fleet.boards[one] for one in names), key=lambda one: natural(one.name))
    shown = ", ".join(link(one) for one in devices[:_NAMES_SHOWN])
    more = len(names) - _NAMES_SHOWN
    return shown + (f" and {more:,} more" if more > 0 else "")


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
    if fleet.others is not None and fleet.others.refused:
        unread = fleet.others.refused
        reasons = "; ".join(f"{escape(r)} ({n:,})" for r, n in unread.most_common(5))
        said.append(
            f"Not read by <code>--sources</code>: {count(unread.total(), 'message')}: {reasons}."
        )
    if fleet.not_shown:
        said.append(f"{count(len(fleet.not_shown), 'more board')} not shown: too many for a page.")
    return "".join(f'<p class="note">{one}</p>' for one in said)

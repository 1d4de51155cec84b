"""What is wrong now, besides readings: silent boards, what needs attention on the live page, and
problems of the house: collector, disk, log, jobs. Pure: it reads the fleet, whose lock the caller
holds.

Silence counts from when we began to watch, because boards that could not reach us were not silent.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from outpost_tools.attention import attention
from outpost_tools.messages.name_rules import is_device
from outpost_tools.readings.sources.idents import ident, shown
from outpost_tools.servers.alerts.ledger import Condition, Ledger, Told
from outpost_tools.servers.alerts.rules import Attention, Silence, fits
from outpost_tools.servers.alerts.settings import Settings
from outpost_tools.servers.alerts.watched import Board, Fleet
from outpost_tools.text.words import duration

LOW_BYTES = 200 << 20
_ENOUGH_BYTES = 250 << 20
# A board sends its constant values with every 64th message. Before that many messages, a problem
# that is not seen may still exist.
_TELLS_ALL = 64
# The beginnings of keys. A slash separates the parts: what identifies a board or a device is a
# topic level, so it contains none. Rules and texts have the names.
_ATTENTION, _HOUSE = "attention/", "house/"
_DISK = f"{_HOUSE}disk"
_SILENT = ("silence", "silent", "quiet")  # kinds
# These happened once, and have no end.
_EVENTS = ("lost", "twins", "restored", "takeover", "refused", "cut")


@dataclass(frozen=True, slots=True)
class View:
    """since_ms: when we began to watch. collector, log: what is wrong with it; "": nothing. free:
    bytes free on the log's disk; None: not known."""

    fleet: Fleet
    now_ms: int
    since_ms: int
    collector: str = ""
    log: str = ""
    free: int | None = None


@dataclass
class Found:
    """conditions: the current problems, by key. held: keys that cannot be judged now; problems
    reported under them stay open."""

    conditions: dict[str, Condition] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)


def look(view: View, settings: Settings, ledger: Ledger) -> Found:
    found = Found()
    for rule in settings.silences:
        for place, name in _watched(view.fleet, rule.boards):
            _silence(view, rule, place, name, found)
    if settings.attention is not None:
        for board in view.fleet.boards.values():
            if fits(board.name, settings.attention.boards):
                _attention(view, settings.attention, board, found)
        leave_out = settings.attention.leave_out
        of_house = _house(view, settings.attention, ledger)
        found.conditions |= {k: one for k, one in of_house.items() if one.kind not in leave_out}
        if view.free is None:
            found.held.add(_DISK)
    found.held |= {key for key, told in ledger.told.items() if _is_held(view.fleet, key, told)}
    return found


def over(told: Told) -> str:
    """The text that reports the end of a problem."""
    if told.kind == "offline":
        return f"{told.board}: online again"
    is_heard = told.kind in _SILENT
    return f"{told.board}: heard again" if is_heard else told.text


def _watched(fleet: Fleet, patterns: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """(identifier, name) of boards and devices that have sent something, and of those that are
    named but have not."""
    there = {one.ident: one.name for one in fleet.boards.values() if fits(one.name, patterns)}
    yield from there.items()
    for pattern in patterns:
        if not re.search(r"[*?\[]", pattern) and pattern not in there.values():
            yield pattern if is_device(pattern) else ident(pattern), pattern


def _board_of(fleet: Fleet, key: str) -> Board | None:
    """The board or device of a key. What was named before it sent anything may be either."""
    name = key.split("/")[1]
    return fleet.boards.get(name) or fleet.boards.get(ident(name))


def _is_silent(view: View, seen_ms: int, longer_s: float) -> bool:
    """Whether the board was silent for longer than `longer_s` while we watched. Reported silence
    stays open until the board is heard."""
    return view.now_ms - max(seen_ms, view.since_ms) > longer_s * 1000


def _silence(view: View, rule: Silence, place: str, name: str, found: Found) -> None:
    board = view.fleet.boards.get(place)
    seen_ms = board.last_seen_ms if board else 0
    key = f"{rule.id}/{place}"
    if not _is_silent(view, seen_ms, rule.longer_s):
        return
    text = f"{name}: nothing for {duration(view.now_ms - seen_ms)}" if seen_ms else (
        f"{name}: has sent no new reading" if board else f"{name}: has never sent anything"
    )  # fmt: skip
    found.conditions[key] = Condition(
        "silence", name, text, seen_ms=seen_ms, details={"limit_s": rule.longer_s}
    )


def _attention(view: View, rule: Attention, board: Board, found: Found) -> None:
    for one in board.findings:
        kind = one.kind
        if not kind.needs_attention or one.key in rule.leave_out:
            continue
        for part in one.parts or ("",):
            key = f"{_ATTENTION}{board.ident}/{one.key}/{part.partition(':')[0]}"
            if one.key in _SILENT:
                if not _is_silent(view, board.last_seen_ms, board.silent_after_s):
                    continue
            found.conditions[key] = Condition(
                one.key, board.name, f"{board.name}: {part or one.text}", wait_s=rule.wait_s,
                size=one.size, has_end=one.key not in _EVENTS, todo=_plain(kind.todo),
                seen_ms=board.last_seen_ms,
            )  # fmt: skip


def _is_held(fleet: Fleet, key: str, told: Told) -> bool:
    if not (told.kind in _SILENT or key.startswith(_ATTENTION)):
        return False
    board = _board_of(fleet, key)
    if board is None:
        return True
    if told.kind in _SILENT:
        return board.last_seen_ms <= told.seen_ms
    return not (board.is_foreign or fleet.is_complete or board.messages >= _TELLS_ALL)


def _house(view: View, rule: Attention, ledger: Ledger) -> dict[str, Condition]:
    found = {}
    if view.collector:
        found[f"{_HOUSE}collector"] = Condition(
            "collector", "", f"collector: {view.collector}", wait_s=rule.wait_s
        )
    if view.log:
        found[f"{_HOUSE}log"] = Condition("log", "", f"log: {view.log}", wait_s=rule.wait_s)
    for name, why in view.fleet.failed_jobs.items():
        found[f"{_HOUSE}job/{name}"] = Condition(
            "job", "", f"the job {name} failed: {why}", wait_s=rule.wait_s
        )
    limit = _ENOUGH_BYTES if _DISK in ledger.told else LOW_BYTES
    if view.free is not None and view.free < limit:
        text = (
            f"the disk has {view.free >> 20} MiB left; when it is full, nothing is confirmed and "
            "the boards keep their readings. `outpost pipeline prune` deletes what is in the tables"
        )
        found[_DISK] = Condition("disk", "", text)
    for kind, count in attention.of_collectors(view.fleet.damaged_pieces, view.fleet.takeovers):
        found[f"{_HOUSE}{kind.key}"] = Condition(
            kind.key, "", f"{kind.many}: {count}", size=count, has_end=False, todo=_plain(kind.todo)
        )
    return found


def is_wanted(settings: Settings, key: str) -> bool:
    """Whether alerts.toml still has a rule for the reported problem `key`."""
    rule, _, rest = key.partition("/")
    place, _, last = rest.partition("/")
    board = shown(place)
    if rule == "house":
        return settings.attention is not None and board not in settings.attention.leave_out
    if rule == "attention":
        wish = settings.attention
        kind = last.partition("/")[0]
        return wish is not None and fits(board, wish.boards) and kind not in wish.leave_out
    if rule.startswith("silence"):
        return any(one.id == rule and fits(board, one.boards) for one in settings.silences)
    return any(one.id == rule and one.is_of(board, last) for one in settings.readings)


def _plain(todo: str) -> str:
    """The text without the page's markup."""
    return html.unescape(re.sub(r"</?code>", "`", todo))

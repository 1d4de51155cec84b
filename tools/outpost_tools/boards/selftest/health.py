"""`outpost selftest`: runs the checks of a board one after the other. Each yields pass, fail or
skip, and its figures.

A check that fails does not stop the others. Free text from the board goes into a result only after
scrub() has removed the values of the settings, because the report is meant to be shown to
strangers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from outpost_tools.boards.files import install, plan
from outpost_tools.boards.port import kinds
from outpost_tools.boards.port.connection import Board, connected
from outpost_tools.boards.port.console import printable
from outpost_tools.boards.port.kinds import Kind
from outpost_tools.boards.selftest import live_run, selftest, sensor_check, wake_ledger
from outpost_tools.errors import ToolError
from outpost_tools.machine.firmware import firmware_version, sensor_faults

PASS, FAIL, SKIP = "pass", "fail", "skip"
# Not all of them are secret, but all are private: none belongs in a public report.
PRIVATE_KEYS = (
    "wifi_password", "password", "user", "wifi_ssid", "broker_host", "server_name", "ntp_host",
    "device_id", "topic_prefix", "ca_file", "client_cert_file", "client_key_file",
)  # fmt: skip
MOST_SETTINGS = 20_000  # characters
_DEFAULT_TEXTS = ("outpost", "pool.ntp.org", "")
_LEAST_BYTES = 20_000  # of free heap with the program built: TLS takes some of it while it connects
_SPACE = """
import gc, os, sys, machine, micropython
gc.collect()
s = os.statvfs("/")
print("S", gc.mem_free(), gc.mem_alloc(), s[0] * s[3], s[0] * s[2], sys.maxsize > 1 << 32)
for name in ("freq", "reset_cause"):
    if hasattr(machine, name):
        found = getattr(machine, name)()
        print("M", name, found[0] if isinstance(found, tuple) else found)
micropython.mem_info()
"""


@dataclass(frozen=True, slots=True)
class Job:
    """messages: how many, spread over `seconds`. link_s: how long the link may take; 0: no link."""

    kind: Kind
    port: str
    messages: int = 10
    seconds: int = 20
    link_s: float = selftest.LINK_S
    answer_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    result: str
    text: str
    figures: dict[str, Any] = field(default_factory=dict)


Sign = Callable[[], None]  # called with each sign of life in the long parts
Scrub = Callable[[str], str]


def examine(job: Job, sign: Sign = lambda: None) -> Iterator[Check]:
    """Yield each check as it is done. Raises ToolError if this is not a board, not one of this
    kind, or one without Outpost.

    If the connection ends later, that is a failed check, so that the results up to then are
    reported.
    """
    scrub = None
    try:
        with connected(job.port, job.answer_s) as board:
            facts = kinds.ask(board)
            kinds.check(job.kind, facts, job.port)
            first = _board(job, board, facts)
            scrub = _scrubber(board)
            yield first
            yield from _rest(job, board, scrub, sign)
    except ToolError as error:
        if not scrub:
            raise
        yield Check("connection", FAIL, scrub(str(error)))


def _rest(job: Job, board: Board, scrub: Scrub, sign: Sign) -> Iterator[Check]:
    for part in (_space, _locked, _outbox, _sensors):
        yield _guarded(part.__name__[1:], scrub, lambda part=part: part(board, scrub))
    link = _guarded("link", scrub, lambda: _link(board, job, scrub))
    yield link
    yield from _live(board, job, scrub, link.result == PASS, sign)
    yield _crash(board, job.port, scrub)


def _guarded(name: str, scrub: Scrub, part: Callable[[], Check]) -> Check:
    try:
        return part()
    except ToolError as error:
        return Check(name, FAIL, scrub(str(error)))


# --- What nobody else may read ---


def _scrubber(board: Board) -> Scrub:
    """Scrub by the board's own settings. If they cannot be read, show no text, because we do not
    know what to hide."""
    text = install.read_text(board, plan.SETTINGS, MOST_SETTINGS)
    try:
        return scrubber(json.loads(text) if text else {})
    except (ValueError, AttributeError):
        return lambda text: "(not shown: the board's settings cannot be read)"


def scrubber(settings: dict[str, Any]) -> Scrub:
    """Return a function that replaces each value of a private key by <key>, the longest value
    first, because it may contain another."""
    known: dict[str, str] = {}
    networks = [one for one in settings.get("wifi_networks") or () if isinstance(one, dict)]
    values = [(key, settings.get(key)) for key in PRIVATE_KEYS]
    values += [(f"wifi_networks.{key}", value) for one in networks for key, value in one.items()]
    for key, value in values:
        if isinstance(value, str) and value not in _DEFAULT_TEXTS:
            known |= dict.fromkeys({value, repr(value)[1:-1], repr(value.encode())[2:-1]}, key)
    if not known:
        return lambda text: text
    pattern = re.compile("|".join(map(re.escape, sorted(known, key=len, reverse=True))))
    return lambda text: pattern.sub(lambda found: f"<{known[found[0]]}>", text)


# --- The checks ---


def _board(job: Job, board: Board, facts: kinds.Facts) -> Check:
    try:
        installed = json.loads(install.read_text(board, plan.RECORD))["version"]
    except (ValueError, KeyError, TypeError):
        command = f"outpost flash --board {job.kind.name} --port {job.port}"
        raise ToolError(
            f"{job.port}: Outpost is not on this board, or not by `outpost flash`; {command}"
        ) from None
    figures = {
        "kind": job.kind.name,
        "interpreter": facts.name,
        "version": list(facts.version),
        "machine": facts.machine,
        "architecture": facts.architecture,
        "outpost": installed,
        "tool": firmware_version(),
    }
    text = f"{job.kind.name}, {facts}, .mpy for {facts.architecture}, Outpost {installed}"
    ours = firmware_version()
    if installed != ours:
        return Check(
            "board",
            FAIL,
            f"{text}; this tool is {ours}: flash the board first",
            figures,
        )
    return Check("board", PASS, text, figures)


def _space(board: Board, scrub: Scrub) -> Check:
    lines = board.run(_SPACE)
    words = next((line.split()[1:] for line in lines if line.startswith("S ")), None)
    if words is None:
        raise ToolError(f"{board.port}: it does not say how much memory is free")
    free, used, drive_free, drive = map(int, words[:4])
    figures: dict[str, Any] = {
        "heap_free": free,
        "heap_used": used,
        "drive_free": drive_free,
        "drive": drive,
    }
    largest = re.search(r"max free sz: (\d+)", " ".join(lines))
    if largest:
        figures["heap_largest"] = int(largest[1]) * (32 if words[4] == "True" else 16)
    figures |= {
        words[0]: int(words[1])
        for words in (line.split()[1:] for line in lines if line.startswith("M "))
    }
    text = f"{free:,} bytes of heap free, {drive_free:,} of {drive:,} in the filesystem"
    return Check("space", PASS, text, figures)


def _locked(board: Board, scrub: Scrub) -> Check:
    return Check("locked", PASS, selftest.heap_free(board))


def _outbox(board: Board, scrub: Scrub) -> Check:
    found = selftest.outbox(board)
    if isinstance(found, str):
        return Check("outbox", FAIL, scrub(found))
    figures = {"blocks": found.blocks, "held": found.held, "boot": found.boot}
    figures |= {"left_out": found.left_out, "aside": found.aside}
    text = f"{found.blocks} blocks, {found.held} messages held{found.troubles}"
    return Check("outbox", PASS, text, figures)


def _sensors(board: Board, scrub: Scrub) -> Check:
    """Read each sensor once."""
    found = sensor_check.run(board)
    if not found:
        return Check("sensors", SKIP, "the board did not open")
    text = "; ".join(one.text(sensor_faults()) for one in found)
    figures = {one.name: {"fault": one.fault, **dict(one.values)} for one in found}
    good = all(one.is_good for one in found)
    return Check("sensors", PASS if good else FAIL, scrub(text), figures)


def _link(board: Board, job: Job, scrub: Scrub) -> Check:
    if not job.link_s:
        return Check("link", SKIP, "not asked for")
    is_up, text = selftest.link(board, job.link_s)
    return Check("link", PASS if is_up else FAIL, scrub(text))


def _live(board: Board, job: Job, scrub: Scrub, has_link: bool, sign: Sign) -> Iterator[Check]:
    limit_s = max(int(job.link_s), job.seconds) if has_link else 0
    try:
        found = live_run.run(board, job.messages, job.seconds, limit_s, sign)
    except ToolError as error:
        yield Check("program", FAIL, scrub(str(error)))
        return
    if found.reason or not found.is_whole:
        yield Check("program", FAIL, scrub(found.reason) or "it ended before it was done")
        return
    yield from judge(found, job, has_link)
    yield _guarded("wake", scrub, lambda: _wake(board, job, has_link))


def judge(found: live_run.Run, job: Job, has_link: bool) -> Iterator[Check]:
    """The checks of a run that was completed."""
    yield _messages(found, job, has_link)
    yield _flash(found)
    yield _loop(found)
    yield _watchdog(found)


def _messages(found: live_run.Run, job: Job, has_link: bool) -> Check:
    figures = {
        "stored": found.stored,
        "sent": found.sent,
        "acknowledged": found.acknowledged,
        "refused": found.refused,
        "held_before": found.held,
        "connected_ms": found.connected_ms,
        "errors": [selftest.name_of(number) for number in found.errors],
    }
    text = f"{found.stored} of {job.messages} stored"
    if not has_link:
        good = found.stored == job.messages and not job.link_s
        return Check("messages", PASS if good else FAIL, f"{text}; no link to send them", figures)
    good = found.stored == job.messages and found.acknowledged >= job.messages
    text = f"{text}, {found.sent} sent, {found.acknowledged} acknowledged by the broker"
    return Check("messages", PASS if good else FAIL, text, figures)


def _flash(found: live_run.Run) -> Check:
    figures, parts = {}, []
    for name, kind in (("program", found.programs), ("erase", found.erases)):
        figures[name] = {
            "count": kind.count,
            "mean_ms": round(kind.mean_ms, 2),
            "most_ms": round(kind.most_ms, 2),
        }
        timed = f"{kind.count} {name}s, {kind.mean_ms:.2f} ms each, {kind.most_ms:.2f} at most"
        parts.append(timed if kind.count else f"no {name}")
    result = PASS if found.programs.count else SKIP
    return Check("flash", result, "; ".join(parts), figures)


def _loop(found: live_run.Run) -> Check:
    """The lowest figure counts: a time request or a ping may fall into one of the windows, but not
    into all."""
    text = (
        f"bytes of heap left by 100 turns, {len(found.heap)} times: "
        f"{', '.join(map(str, found.heap))}"
    )
    good = min(found.heap, default=1) == 0 and found.heap_free >= _LEAST_BYTES
    text = f"{text}; {found.heap_free:,} free with the program built"
    figures = {"left_by_100_turns": found.heap, "heap_free": found.heap_free, "turns": found.turns}
    return Check("loop", PASS if good else FAIL, text, figures)


def _watchdog(found: live_run.Run) -> Check:
    text = (
        f"fed for {found.took_ms / 1000:.1f} s, {found.longest_turn_ms:,} ms between two at most, "
        f"of {live_run.WATCHDOG_MS:,}"
    )
    good = found.longest_turn_ms < live_run.WATCHDOG_MS and found.took_ms > live_run.WATCHDOG_MS
    return Check(
        "watchdog",
        PASS if good else FAIL,
        text,
        {"longest_ms": found.longest_turn_ms, "took_ms": found.took_ms},
    )


def _wake(board: Board, job: Job, has_link: bool) -> Check:
    """Measure what each step from the import to the acknowledgement takes."""
    if not has_link:
        return Check("wake", SKIP, "no link")
    found = wake_ledger.run(board, job.link_s)
    figures: dict[str, Any] = {"ms": found.ms, "mas": found.mas(job.kind.name)}
    if not found.is_whole:
        return Check("wake", FAIL, f"it did not end; {found.text(job.kind.name)}", figures)
    return Check("wake", PASS, found.text(job.kind.name), figures)


def _crash(board: Board, port: str, scrub: Scrub) -> Check:
    text = install.read_text(board, "/crash.txt")
    lines = [scrub(printable(line.encode())) for line in text.strip().splitlines()]
    if not lines:
        return Check("crash", PASS, "no crash.txt")
    text = f"{lines[-1]}; when that is mended: mpremote connect {port} rm :crash.txt"
    return Check("crash", FAIL, text, {"crash.txt": lines})

"""Checks that the first message of a board gets through to the collector or the broker, whichever
lets the board release it.

The station runs under observation, as in live_run.py: build() of main.py builds it, it takes one
reading, and the message is numbered in the board's own stream. In collector mode the check waits
for the collector's confirmation, in broker mode for the broker's acknowledgement. A stored message
is not lost if the check fails.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from outpost_tools.boards.port.connection import Board
from outpost_tools.boards.selftest import selftest
from outpost_tools.errors import ToolError

# One confirmation on this connection proves nothing by itself: it may be what the broker retained
# from a collector that is gone. So the script waits for a second one, or for the release.
_SCRIPT = """
import main

def first(limit_ms):
    board = main.board
    settings = main.load_settings()
    board.open(settings)
    station = main.build(settings)
    client = station.client
    session, outbox = client.session, client.session.outbox
    is_collector = settings["mode"] == "collector"
    board.started(client)
    since = tick = measured = board.ticks_ms()
    tried, seq, printed, done = 0, -1, 0, False
    while not done and (board.ticks_ms() - since & 0x3fffffff) < limit_ms:
        now = board.ticks_ms()
        board.keep_time(station.clock, now)
        if seq < 0 and tried < 5 and (not tried or (now - measured & 0x3fffffff) > 1000):
            tried, measured = tried + 1, now
            if station.measure():
                getattr(station, "close_record", int)()  # a firmware from before has none
                seq = outbox.next_seq - 1
        if not client.poll(now):
            board.idle(client)
        board.feed_watchdog()
        if is_collector:
            done = (seq >= 0 and outbox.oldest_seq > seq) or session.confirmations > 1
        else:
            done = session.acknowledged > 0
        if client.last_error != printed:
            printed = client.last_error
            print("E", printed)
        if (now - tick & 0x3fffffff) > 1000:
            tick = now
            print(".")
    held = outbox.next_seq - outbox.oldest_seq
    print("D", int(done), int(is_collector), int(client.is_connected()),
          session.acknowledged, held, station.status, seq, settings["interval_ms"],
          settings["outbox_blocks"], int(settings.get("series", False)))
    client.close()
    board.stopped(client)

def guarded(limit_ms):
    try:
        first(limit_ms)
    except ValueError as error:
        print("X", error)
    finally:
        main.board.release_watchdog()
"""
_ANSWER = re.compile(r"D( -?\d+){10}")
_MESSAGES_A_BLOCK = 16  # messages with three readings, of 248 bytes each
_SAMPLES_A_BLOCK = 500  # samples in series with three readings, 60 per record


@dataclass(frozen=True, slots=True)
class Found:
    """status: that of the measurement. seq: the number of the message; -1 if no sensor had a
    reading."""

    is_done: bool
    is_collector: bool
    is_connected: bool
    acknowledged: int
    held: int
    status: int
    seq: int
    interval_ms: int
    blocks: int
    has_series: int = 0


def check(board: Board, limit_s: float) -> tuple[bool, str]:
    """Return whether the message got through, and what to report. Raises ToolError."""
    since, errors = time.monotonic(), list[int]()

    def take(line: str) -> None:
        if re.fullmatch(r"E -?\d+", line) and int(line[2:]):
            errors.append(int(line[2:]))

    board.renew()
    lines = board.run(f"{_SCRIPT}\nguarded({int(limit_s * 1000)})", take)
    reason = next((line[2:] for line in lines if line.startswith("X ")), "")
    if reason:
        return False, reason
    found = parse(lines)
    if found is None:
        raise ToolError(f"{board.port}: first message: no result; it said: {lines[-1:]}")
    return told(found, time.monotonic() - since, limit_s, errors)


def parse(lines: list[str]) -> Found | None:
    line = next((line for line in lines if _ANSWER.fullmatch(line)), None)
    if line is None:
        return None
    numbers = [int(word) for word in line.split()[1:]]
    return Found(*map(bool, numbers[:3]), *numbers[3:])


def told(
    found: Found,
    took_s: float,
    limit_s: float,
    errors: list[int],
    name_of: Callable[[int], str] = selftest.name_of,
) -> tuple[bool, str]:
    who = "collector confirmed it" if found.is_collector else "broker took it"
    if found.is_done:
        return True, f"the {who} after {took_s:.1f} s"
    if not found.held:
        return False, "no sensor had a reading within 5 s: nothing to send"
    if not found.is_connected or not found.acknowledged:
        why = f": {', then '.join(map(name_of, dict.fromkeys(errors)))}" if errors else ""
        return False, f"the broker did not take it within {limit_s:g} s{why}"
    return False, (
        f"the broker took it, and no collector confirmed it within {limit_s:g} s. In collector "
        f"mode the board keeps all until then, and its flash is full in about {_full(found)}: "
        "start `outpost collect` at this broker, with this topic_prefix; or, to live without one, "
        'set mode = "broker". What the board has stored is safe'
    )


def _full(found: Found) -> str:
    """The approximate time until the outbox is full."""
    a_block = _SAMPLES_A_BLOCK if found.has_series else _MESSAGES_A_BLOCK
    left = max(found.blocks * a_block - found.held, 0)
    hours = left * found.interval_ms / 3_600_000
    if hours < 1:
        return f"{hours * 60:.0f} min"
    return f"{hours:.0f} h" if hours < 72 else f"{hours / 24:.0f} days"

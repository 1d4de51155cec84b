"""Sends commands and waits for their answers, also across broker restarts.

It subscribes to answers before it sends a command. A command without an answer is sent again with
the same id, after a lost connection and at increasing intervals, because a broker that was killed
may have forgotten the board's session and then accepts a command that no board receives. A board
that already knows the command does not execute it again; it only repeats the result.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from outpost_tools.boards.send.line import Access, Line
from outpost_tools.messages import message
from outpost_tools.text.words import number

RESULTS = {0: "done", 1: "refused", 2: "taken back", 3: "in progress"}
_IN_PROGRESS = 3
_CONNECT_S = 20.0
_GRACE_S = 3.0  # after a repeated result, wait this long for the first answer, which says why
_FIRST_REPEAT_S = 10.0  # doubled each time, as copies for a sleeping board pile up at the broker


@dataclass(frozen=True, slots=True)
class Answer:
    """result: a key of RESULTS. readings: those of a report. is_repeat: the board knew the command
    already and only repeats its result."""

    result: int
    what: str = ""
    why: str = ""
    readings: tuple[tuple[str, Any], ...] = ()
    is_repeat: bool = False

    def __str__(self) -> str:
        text = RESULTS.get(self.result, f"result {self.result}")
        if self.why:
            text += f": {self.why}"
        if self.is_repeat:
            text += " (it was answered before)"
        return text + "".join(f" {name}={number(value)}" for name, value in self.readings)


def answer_in(payload: bytes) -> tuple[str, Answer] | None:
    """Return (id, answer) from a board's message, or None if the message contains no answer."""
    try:
        found = message.records_in(payload)
        head = found[0] if isinstance(found, list) else found
        command_id, result = head["cmd"], head["v"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    if not isinstance(command_id, str) or not isinstance(result, int):
        return None
    readings = [
        (one["n"], one["v"])
        for one in (found[1:] if isinstance(found, list) else [])
        if isinstance(one, dict) and "n" in one and _is_number(one.get("v"))
    ]
    what, why = str(head.get("what", "")), str(head.get("why", ""))
    return command_id, Answer(result, what, why, tuple(readings), "again" in head)


def _is_number(value: Any) -> bool:
    """Whether the value is a number that a float can hold."""
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max


class Delivery:
    """Sends the commands. `answers` maps names of boards to their answers."""

    def __init__(self, access: Access, commands: dict[str, tuple[str, bytes]]) -> None:
        """commands: board -> (id, payload)."""
        self.address = access.address
        self.answers: dict[str, Answer] = {}
        self._commands = commands
        self._told_again: dict[str, tuple[float, Answer]] = {}  # (time, answer)
        self._published: dict[int, str] = {}  # by packet identifier
        self.line = Line(access, commands, self._publish, self._on_message)

    @property
    def sent(self) -> set[str]:
        """Boards whose command the broker has acknowledged."""
        return {self._published[mid] for mid in self.line.acknowledged & self._published.keys()}

    def run(self, timeout_s: float, *, is_waiting: bool, tell: Callable[[str, Answer], None]):
        """Return when each command is answered (without is_waiting: sent), or after timeout_s; a
        command that is not sent yet has at least 20 s. Raises ToolError if the broker refuses or
        does not answer."""
        self.line.open()
        try:
            self._wait(time.monotonic() + timeout_s, is_waiting, tell)
        finally:
            self.line.close()

    def _wait(self, until: float, is_waiting: bool, tell: Callable[[str, Answer], None]) -> None:
        told: set[str] = set()
        connect_until = time.monotonic() + _CONNECT_S
        repeat_at, repeat_s = time.monotonic() + _FIRST_REPEAT_S, _FIRST_REPEAT_S
        while True:
            self._take_told_again()
            for name in [name for name in self.answers if name not in told]:
                tell(name, self.answers[name])
                told.add(name)
            done = self.answers if is_waiting else self.sent
            now = time.monotonic()
            is_sent = len(self.sent) == len(self._commands)
            is_late = now >= (until if is_sent else max(until, connect_until))
            if len(done) == len(self._commands) or is_late:
                return
            if is_sent and now >= repeat_at:
                repeat_s *= 2
                repeat_at = now + repeat_s
                self._publish()
            self.line.turn()

    def _publish(self) -> None:
        """Send each command that has no answer."""
        for name in [name for name in self._commands if name not in self.answers]:
            self._published[self.line.publish(name, self._commands[name][1])] = name

    def _on_message(self, name, message) -> None:
        found = None if message.retain else answer_in(message.payload)
        if found is None or name not in self._commands or found[0] != self._commands[name][0]:
            return
        if found[1].result == _IN_PROGRESS:
            return
        if found[1].is_repeat:
            self._told_again.setdefault(name, (time.monotonic(), found[1]))
        else:
            self.answers.setdefault(name, found[1])

    def _take_told_again(self) -> None:
        for name, (at_s, answer) in self._told_again.items():
            if time.monotonic() - at_s >= _GRACE_S:
                self.answers.setdefault(name, answer)

"""Which values of a board are current: the newest of each sensor, and no old ones.

A board that was cut off sends what it has stored, oldest first. A consumer without a history would
mistake each of those values for a new one, so none of them is current:

- The time of a message's newest reading is compared with the arrival. If they differ by more than
  FRESH_S in either direction, the message is not current. Otherwise each reading is current that is
  later than the previous one of its sensor.
- The values that a board had before it went offline are not current when it comes back. The values
  that it sends then are.
- Without a clock, only the time since the board's start is known. As long as messages catch up
  (each arrives sooner after the previous one than it was measured after it), they are a backlog.
  The newest is current when none has caught up for SETTLE_S.

A device of a mapping (others.py) has times of its own, or those of its messages' arrival, and is
judged by the first rule. It announces no interval, so its values stay current for EXPIRE_S, or for
three times the longest pause that it made, up to MOST_OTHER_S.

Bounded: MOST_BOARDS, and MOST_SENSORS for each. Pure: the time is an argument, in seconds since
1970.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from outpost_tools.attention import silence
from outpost_tools.messages.message import Message
from outpost_tools.messages.senml import Reading
from outpost_tools.servers.republish import units
from outpost_tools.servers.republish.topics import OFFLINE

FRESH_S = 120.0
SETTLE_S = 5.0
JITTER_S = 2.0
MOST_BOARDS = 10_000
MOST_SENSORS = 64
EXPIRE_S = 3600  # for a board that has not announced how often it reports
MOST_EXPIRE_S = int(silence.MOST_S)
MOST_OTHER_S = 90_000  # a day and an hour


class Value(NamedTuple):
    value: float
    unit: str | None
    time_s: float


@dataclass(slots=True)
class Board:
    """changed: sensors with a new value that the consumer has not taken yet. sensors: all that the
    board ever had, and their units. state: what the board, or its will, reports; "": nothing.
    components: those of its discovery, as the broker remembers them."""

    name: str
    values: dict[str, Value] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    sensors: dict[str, str | None] = field(default_factory=dict)
    components: dict[str, dict[str, Any]] = field(default_factory=dict)
    state: str = ""
    report_s: float = 0.0  # as the board announced it; 0: it has not
    expire_s: int = EXPIRE_S
    is_current: bool = False
    expires_at: float = float("inf")
    is_description_new: bool = False
    came_at: float | None = None  # a device of a mapping: its newest message
    # Without a clock: the board's start, estimated from arrivals; and the message that waits.
    line: _Line | None = None


@dataclass(slots=True)
class _Line:
    """One boot. seq: number of the newest message. offset_s: the message's arrival minus its time
    since the board's start, which is smallest for the message with the least delay."""

    stream: str
    boot: int
    seq: int
    offset_s: float
    due_at: float
    waiting: Message | None
    is_settled: bool = False


class Newest:
    """The boards by name. Call take() for each message, tick() now and then."""

    def __init__(self) -> None:
        self.boards: dict[str, Board] = {}
        self.old = 0  # messages that were not current
        # For each board whose times are far from ours: how many messages were left out since this
        # was last cleared, and how far the newest reading of the last one was behind our clock.
        self.left_out: dict[str, tuple[int, float]] = {}

    def board(self, name: str) -> Board | None:
        """The board with this name, which is created if it is new; None if there are too many."""
        found = self.boards.get(name)
        if found is None and len(self.boards) < MOST_BOARDS:
            found = self.boards[name] = Board(name)
        return found

    def forget(self, name: str) -> None:
        self.boards.pop(name, None)

    def take(self, message: Message, now: float) -> None:
        board = self.board(message.device)
        if board is None or not message.readings:
            return
        # it is valid even if the message is old: in deep sleep most messages are
        told = (one.value for one in message.readings if one.name == silence.REPORT_S)
        board.report_s = next(told, board.report_s)
        if any(reading.time_s is None for reading in message.readings):
            self._take_clockless(board, message, now)
            return
        board.line = None
        newest_s = max(reading.time_s or 0.0 for reading in message.readings)
        if abs(now - newest_s) > FRESH_S:
            self._leave_out(board, now - newest_s)
            return
        self._accept(board, message, now)

    def take_other(self, message: Message, now: float, *, is_described: bool) -> None:
        """A message of a device of a mapping, as readings/sources/as_board.py makes it.
        is_described: its
        sensors are for the discovery too."""
        board = self.board(message.device)
        if board is None or not message.readings:
            return
        newest_s = max(reading.time_s or 0.0 for reading in message.readings)
        if abs(now - newest_s) > FRESH_S:
            self._leave_out(board, now - newest_s)
            return
        self._put(board, message, now, is_described=is_described)
        pause_s = 0.0 if board.came_at is None else now - board.came_at
        board.came_at = now
        expire_s = int(min(max(EXPIRE_S, silence.of_other_s(pause_s, MOST_OTHER_S)), MOST_OTHER_S))
        if expire_s > board.expire_s:
            board.expire_s, board.is_description_new = expire_s, bool(board.sensors)
        board.is_current, board.expires_at = True, now + board.expire_s

    def heard_offline(self, name: str) -> None:
        """Of a device of a mapping: see heard_state()."""
        board = self.boards.get(name)
        if board is not None:
            board.is_current, board.expires_at = False, float("inf")

    def _leave_out(self, board: Board, old_s: float) -> None:
        self.old += 1
        count, _ = self.left_out.get(board.name, (0, 0.0))
        self.left_out[board.name] = count + 1, old_s

    def tick(self, now: float) -> None:
        """Expires values; makes waiting ones current."""
        for board in self.boards.values():
            line = board.line
            if line is not None and line.waiting is not None and now >= line.due_at:
                waiting, line.waiting, line.is_settled = line.waiting, None, True
                self._accept(board, waiting, now)
            if now >= board.expires_at:
                board.is_current, board.expires_at = False, float("inf")

    def clock_set(self, by_s: float, now: float) -> None:
        """Our own clock was set by `by_s`: shift what was noted with it. Otherwise a board without
        a clock would seem late until its next start, or nothing would be newer than what it has."""
        for board in self.boards.values():
            board.expires_at += by_s
            if board.came_at is not None:
                board.came_at += by_s
            if board.line is not None:
                board.line.offset_s += by_s
                board.line.due_at += by_s
            for name, one in board.values.items():
                board.values[name] = one._replace(time_s=min(one.time_s, now))

    def know(self, name: str, now: float, *, is_current: bool) -> None:
        """Takes over what the broker remembers of a board: whether its values were current."""
        board = self.board(name)
        if board is not None and not board.values:
            board.is_current = is_current
            board.expires_at = now + board.expire_s if is_current else float("inf")

    def heard_state(self, name: str, state: str) -> None:
        board = self.board(name)
        if board is not None and board.state != state:
            board.is_description_new = board.is_description_new or not board.state
            board.state = state
            if state.encode() == OFFLINE:
                # Otherwise a consumer that trusts only its state would show its earlier values as
                # new, until the backlog has been sent.
                board.is_current, board.expires_at = False, float("inf")

    def _take_clockless(self, board: Board, message: Message, now: float) -> None:
        uptime_s = (message.uptime_s or 0.0) + max(one.shift_s for one in message.readings)
        offset_s, line = now - uptime_s, board.line
        # compare the numbers, because the boot count restarts when its bits are used up or the
        # flash is new
        if line is not None and line.stream == message.stream and message.seq <= line.seq:
            self.old += 1  # a repetition
            return
        boot = message.stream, message.boot
        if line is None or boot != (line.stream, line.boot) or offset_s < line.offset_s - JITTER_S:
            board.line = _Line(*boot, message.seq, offset_s, now + SETTLE_S, message)
            return
        if offset_s - line.offset_s > FRESH_S:
            self.old += 1
            return
        line.offset_s, line.seq = offset_s, message.seq
        if line.is_settled:
            self._accept(board, message, now)
        else:
            line.waiting = message

    def _accept(self, board: Board, message: Message, now: float) -> None:
        self._put(board, message, now, is_described=True)
        self._expect(board, now)

    def _put(self, board: Board, message: Message, now: float, *, is_described: bool) -> None:
        for reading in message.readings:
            time_s = now if reading.time_s is None else reading.time_s
            known = board.values.get(reading.name)
            if known is not None and time_s <= known.time_s:
                continue
            if known is None and len(board.values) >= MOST_SENSORS:
                continue
            board.values[reading.name] = Value(reading.value, reading.unit, time_s)
            board.changed.add(reading.name)
            if not is_described:
                continue
            unit = _unit(reading, board.sensors.get(reading.name))
            if board.sensors.get(reading.name, "?") != unit:
                board.sensors[reading.name] = unit
                board.is_description_new = True

    def _expect(self, board: Board, now: float) -> None:
        """The board's values stay current until it counts as silent, or for EXPIRE_S if it has not
        announced how often it reports."""
        if board.report_s > 0:
            expire_s = int(silence.after_s(board.report_s, 0.0, 0))
            if expire_s != board.expire_s:
                board.expire_s, board.is_description_new = expire_s, True
        board.is_current, board.expires_at = True, now + board.expire_s


def _unit(reading: Reading, known: str | None) -> str | None:
    """The unit of the reading. That of a contact becomes RATIO at the first value that is neither 0
    nor 1, and stays so. known: the unit before."""
    if reading.unit == units.CONTACT and (known == units.RATIO or reading.value not in (0, 1)):
        return units.RATIO
    return reading.unit

"""The state of all devices, and which part of it changed since when. One thread adds frames, others
read under `lock`. Bounded: MOST_BOARDS, MOST_SENSORS; others.py for other people's devices, which
take none of the boards' places.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from outpost_tools.attention import attention
from outpost_tools.log import collector_notes
from outpost_tools.log.segment_frames import Frame
from outpost_tools.messages import arrival, message
from outpost_tools.messages.message import Message
from outpost_tools.messages.reasons import Reasons
from outpost_tools.readings.sources.idents import ident
from outpost_tools.servers.live.board import Board
from outpost_tools.servers.live.device import Device
from outpost_tools.servers.live.foreign_device import ForeignDevice
from outpost_tools.servers.live.sensor import Sensor
from outpost_tools.store.base import Store
from outpost_tools.text.words import natural

if TYPE_CHECKING:
    from outpost_tools.readings.sources import result
    from outpost_tools.readings.sources.mapping import Mapping
    from outpost_tools.servers.live.others import Others

MOST_BOARDS, MOST_SENSORS = 2000, 20_000
_PORTION = 100
_LOOK_S = 2.0  # between two checks for silent boards


def clock_ms() -> int:
    return time.time_ns() // 1_000_000


class Fleet:
    """version: grows with every change. is_complete: the log was read from its first message on, so
    a missing number is a lost message. reading: the share of the history that has been read; None
    once all of it has. is_collected: whether a collector writes to the log; None: cannot be known.
    failed_jobs: the jobs of `outpost run` that failed, and why. boards: all devices, by what
    identifies them. on_message: called with each new message and its arrival in ms, in any order,
    while the lock is held; others' messages as readings/sources/as_board.py makes them."""

    def __init__(self, clock: Callable[[], int] = clock_ms, mapping: Mapping | None = None) -> None:
        """mapping: None: only boards are shown."""
        self.clock = clock
        self.lock = threading.RLock()
        self.version = 1
        self.verdict_version = 1
        self.boards: dict[str, Device] = {}
        self.others: Others | None = None
        if mapping is not None:
            from outpost_tools.servers.live.others import Others

            self.others = Others(mapping, MOST_SENSORS)
        self.refused = Reasons()
        self.damaged_pieces = self.takeovers = self.clock_wrong = 0
        self.not_shown: set[str] = set()  # boards beyond the bound, at most MOST_BOARDS of them
        self.is_complete = False
        self.reading: float | None = 0.0
        self.is_collected: bool | None = None
        self.failed_jobs: dict[str, str] = {}
        self.on_message: Callable[[Message, int], None] = lambda *_: None
        self.frames = 0
        self._numbers = iter(range(MOST_SENSORS))
        self._board_numbers = itertools.count()
        self._looked_at = float("-inf")
        self._told: tuple = ()
        self.log: Store | None = None
        self.home: Path | None = None  # log, home: folders for the commands that the page suggests
        self._forgotten: dict[str, int] = {}  # by board: until which arrival it is left out
        # since when boards can be heard here; the newest arrival before that
        self._listens_ms, self._before_ms = clock(), 0

    # --- What comes in ---

    def take(self, frames: Sequence[Frame]) -> None:
        """Adds frames in small portions, so that a reader need not wait for all of them."""
        for begin in range(0, len(frames), _PORTION):
            with self.lock:
                self.version += 1
                for frame in frames[begin : begin + _PORTION]:
                    self._take(frame)

    def _take(self, frame: Frame) -> None:
        self.frames += 1
        topic = frame.topic.decode("utf-8", "replace")
        if note := collector_notes.reason_of(topic, frame.payload):
            self.takeovers += note == collector_notes.REASONS[collector_notes.TAKEN_OVER]
            self.clock_wrong += note == collector_notes.REASONS[collector_notes.CLOCK]
            return
        if self.others is not None and self.others.has(frame):
            self._take_foreign(self.others, frame)
            return
        try:
            found = message.decode(
                topic, frame.payload, retained=frame.retained,
                original_length=frame.original_length, received_ms=frame.arrival_ms,
            )  # fmt: skip
        except message.Malformed as error:
            self.refused.note(str(error))
            return
        is_over = frame.received_ms <= self._forgotten.get(found.device, -1)
        board = None if is_over else self._board(found.device)
        if board is not None:
            newest_s = max((one.time_s or 0.0 for one in found.readings), default=None)
            seen_ms, now_ms = self._seen_ms(frame, newest_s), self.clock()
            if board.take(found, seen_ms, now_ms, self.version, self._numbers):
                self.on_message(found, seen_ms)

    def _seen_ms(self, frame: Frame, newest_s: float | None) -> int:
        """When the frame arrived, as well as it is known."""
        unset = frame.is_clock_unset
        seen_ms = arrival.seen_ms(frame.received_ms, self.clock(), newest_s, is_unset=unset)
        if seen_ms < self._listens_ms:
            self._before_ms = max(self._before_ms, seen_ms)
        return seen_ms

    def _take_foreign(self, others: Others, frame: Frame) -> None:
        found = others.read(frame)
        device = None if found is None else self._device(found, others, frame.received_ms)
        if found is None or device is None:
            return
        seen_ms = self._seen_ms(frame, others.newest_s(found))
        new = others.give(device, found, frame, seen_ms, self.clock(), self.version)
        if new is not None:
            self.on_message(new, seen_ms)

    def _device(
        self, found: result.Message | result.State, others: Others, received_ms: int
    ) -> ForeignDevice | None:
        """None if it was forgotten, or there are too many."""
        name = ident(found.device)
        if received_ms <= self._forgotten.get(name, -1):
            return None
        device = self.boards.get(name)
        if device is None:
            device = others.new_device(found, self._board_numbers)
            if device is not None:
                device.facts_version = self.version
                self.boards[name] = device
        return device if isinstance(device, ForeignDevice) else None

    def _board(self, name: str) -> Board | None:
        found = self.boards.get(name)
        boards = len(self.boards) - (self.others.devices if self.others is not None else 0)
        if found is None and boards >= MOST_BOARDS:
            if len(self.not_shown) < MOST_BOARDS:
                self.not_shown.add(name)
            return None
        if found is None:
            found = self.boards[name] = Board(name, next(self._board_numbers))
            found.facts_version = self.version
        return found if isinstance(found, Board) else None

    def forget(self, until: dict[str, int]) -> None:
        """until: by board, the arrival in ms up to which it is not shown (forgotten.py)."""
        with self.lock:
            if until == self._forgotten:
                return
            self._forgotten = dict(until)
            for name, until_ms in until.items():
                if name in self.boards and self.boards[name].last_seen_ms <= until_ms:
                    if self.boards.pop(name).is_foreign and self.others is not None:
                        self.others.devices -= 1
            self._looked_at = float("-inf")

    def damaged(self, pieces: int) -> None:
        with self.lock:
            self.damaged_pieces += pieces

    def history_read(self, share: float | None, *, is_complete: bool = False) -> None:
        """share: how much of the history has been read; None: reading has ended."""
        with self.lock:
            self.reading = share
            if share is None:
                self.is_complete = is_complete
                if not is_complete:
                    for board in self.boards.values():
                        if isinstance(board, Board):
                            board.count_from_here()
                self._looked_at = float("-inf")

    def look(self, *, at_once: bool = False) -> None:
        """Finds out which boards need attention. Call it regularly: no message reports silence."""
        now = time.monotonic()
        if not at_once and now - self._looked_at < _LOOK_S:
            return
        with self.lock:
            self._looked_at = now
            self.version += 1
            if self.is_collected is False:
                self._deaf()
            changed = [board for board in self.boards.values() if self._is_news(board)]
            for board in changed:
                board.facts_version = self.version
            told = self._tells()
            if told != self._told:
                self._told, self.verdict_version = told, self.version
            elif not changed:
                self.version -= 1

    def _deaf(self) -> None:
        """No collector stores anything: no board can be heard, so none counts as silent."""
        self._listens_ms = self.clock()
        self._before_ms = max((one.last_seen_ms for one in self.boards.values()), default=0)

    def _is_news(self, board: Device) -> bool:
        before = [one.news for one in board.findings]
        silent_s, heard_s = self._silent_s(board)
        board.findings = board.found(
            silent_s=silent_s, listened_s=heard_s, count_missing=self.reading is None
        )
        return before != [one.news for one in board.findings]

    def _silent_s(self, board: Device) -> tuple[float, float]:
        """(seconds since the board was last seen, how many of them it could have been heard). The
        time before our start counts as long as other boards were heard then."""
        now_ms, seen_ms = self.clock(), board.last_seen_ms
        here_ms = now_ms - max(seen_ms, self._listens_ms)
        return max(now_ms - seen_ms, 0) / 1000, max(here_ms, self._before_ms - seen_ms, 0) / 1000

    def _tells(self) -> tuple:
        """Everything that the head of the page depends on."""
        found = tuple((b.ident, *(f.key for f in b.findings)) for b in self.boards.values())
        of_log = (*self.of_collectors, len(self.not_shown), self.is_collected)
        reading = None if self.reading is None else round(self.reading, 1)
        unread = self.refused.total() + (self.others.refused.total() if self.others else 0)
        return found, of_log, self.failed_jobs, unread, reading

    # --- For the pages ---

    @property
    def of_collectors(self) -> tuple[int, int, int]:
        """The arguments of attention.of_collectors()."""
        return self.damaged_pieces, self.takeovers, self.clock_wrong

    def found(self) -> list[tuple[dict, list[attention.Finding]]]:
        """The devices with findings, for attention.verdict() and advice(); the worst first. Their
        rows have what identifies them."""
        told = [board for board in self.boards.values() if board.is_told]
        rows = [({"device": board.ident}, board.findings) for board in told]
        return attention.in_order([one for one in rows if one[1]])

    def in_order(self) -> list[Device]:
        """Devices that need attention first, then by name."""
        found = self.found()
        first = [row["device"] for row, one in found if one[0].kind.needs_attention]
        others = self.boards.keys() - set(first)
        rest = sorted((self.boards[name] for name in others), key=_by_name)
        return [*(self.boards[name] for name in first), *rest]

    def changed_boards(self, since: int, name: str | None) -> Iterator[Device]:
        """Devices that changed after version `since`. name: what identifies the
        only one; None: all."""
        boards = self.boards.values() if name is None else [self.boards.get(name)]
        for board in boards:
            if board is not None and max(board.version, board.facts_version) > since:
                yield board

    @staticmethod
    def changed_sensors(board: Device, since: int) -> Iterator[Sensor]:
        return (one for one in board.sensors.values() if one.version > since)


def _by_name(device: Device) -> tuple:
    return natural(device.name), device.ident

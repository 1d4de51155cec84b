"""One board, as its messages describe it: newest values, missing messages, health.

Every message may arrive twice, and messages may arrive in any order; the final state is the same.
Bounded by the constants below. Pure: no files, no clock, no HTML.
"""

from __future__ import annotations

from collections.abc import Iterable

from outpost_tools.attention import attention, restarts, silence
from outpost_tools.messages import ranges, sensor_notes
from outpost_tools.messages.labels import HEALTH_COUNTS, HEALTH_STATES
from outpost_tools.messages.message import Message
from outpost_tools.messages.senml import Reading
from outpost_tools.servers.live.device import Device, unit_of
from outpost_tools.servers.live.sensor import Point

_MOST_STREAMS, _MOST_GAPS, _MOST_BOOTS = 8, 500, 64
_HEALTH = frozenset((*HEALTH_STATES, *HEALTH_COUNTS))


class _Stream:
    """The sequence numbers that arrived. counted_from: gaps below it mean nothing, because not
    every message below it was read."""

    def __init__(self) -> None:
        self.numbers: ranges.Ranges = []
        self.held = 0
        self.counted_from = 0
        self.clock: tuple[int, int, int] | None = None  # boot, number, milliseconds to add to `up`

    def take(self, message: Message) -> bool:
        """False if the message came before."""
        seq = message.seq
        is_new = ranges.following(seq, [self.numbers]) == seq
        ranges.cover(self.numbers, seq, seq)
        if len(self.numbers) > _MOST_GAPS:
            self.counted_from = max(self.counted_from, self.numbers[1][0])
            ranges.cover(self.numbers, self.numbers[0][0], self.numbers[1][1])
        self.held = max(self.held, message.held)
        return is_new

    def missing(self) -> tuple[int, int]:
        """(how many messages will never come, how many the board may still hold)."""
        closed = still_open = 0
        start = max(self.counted_from, self.numbers[0][0]) if self.numbers else 0
        for first, last in ranges.missing(self.numbers, start):
            lost = max(min(last + 1, self.held) - first, 0)
            closed, still_open = closed + lost, still_open + last + 1 - first - lost
        return closed, still_open


class Board(Device):
    """Call take() for each message."""

    def __init__(self, name: str, number: int) -> None:
        super().__init__(name, name, number)
        self._newest: tuple[int, str, int] = (-1, "", -1)
        self._streams: dict[str, _Stream] = {}
        self._restarts = restarts.Restarts()
        self._health: dict[str, dict[tuple[str, int], int]] = {}
        self._untimed = 0
        self._ahead_ms = 0  # how far the board's clock is ahead, according to the newest message

    def take(
        self, message: Message, received_ms: int, now_ms: int, version: int, free: Iterable[int]
    ) -> bool:
        """free: numbers for new sensors. Returns False if the message came before."""
        stream = self._stream(message.stream)
        self._see_message(message, received_ms)
        if not stream.take(message):
            return False
        self.messages += 1
        offset_ms = _clock(stream, message)
        for reading in message.readings:
            self._take(reading, message, received_ms, offset_ms, now_ms, version, free)
        began_ms = _placed(message.readings[0], message, offset_ms) or received_ms
        self._restarts.take(message.stream, message.boot, began_ms, _cause(message))
        self.version = version
        return True

    def _see_message(self, message: Message, received_ms: int) -> None:
        self._see(received_ms)
        place = (received_ms, message.stream, message.seq)
        if place >= self._newest:
            self._newest, self.backlog = place, message.seq - message.held

    def _stream(self, name: str) -> _Stream:
        """If there are too many streams, a new one replaces the oldest."""
        if name not in self._streams:
            while len(self._streams) >= _MOST_STREAMS:
                del self._streams[next(iter(self._streams))]
            self._streams[name] = _Stream()
        return self._streams[name]

    def _take(self, reading: Reading, message: Message, received_ms: int, offset_ms: int | None,
              now_ms: int, version: int, free: Iterable[int]) -> None:  # fmt: skip
        if reading.name in _HEALTH:
            self._take_health(reading, message)
            return
        placed_ms = _placed(reading, message, offset_ms)
        time_ms, is_arrival = placed_ms or received_ms, placed_ms is None
        self._untimed += is_arrival
        if reading is message.readings[0]:
            if (received_ms, message.stream, message.seq) == self._newest:
                self._ahead_ms = max(time_ms - received_ms, 0)
            self._note_time(time_ms)
        sensor = self._sensor(reading.name, unit_of(reading), version, free)
        point = Point(time_ms, reading.value, version)
        if sensor is not None and self._fits(sensor, point, unit_of(reading)):
            sensor.add(point, is_arrival=is_arrival, now_ms=now_ms)

    def _take_health(self, reading: Reading, message: Message) -> None:
        """Keeps the greatest value of a count for each boot, and the newest value of a state."""
        told = self._health.setdefault(reading.name, {})
        value = int(min(max(reading.value, 0), 1 << 30))
        boot = (message.stream, message.boot)
        if reading.name in HEALTH_STATES:
            newest = next(iter(told), None)
            if newest is None or newest[0] != message.stream or message.seq >= newest[1]:
                told.clear()
                told[message.stream, message.seq] = value
            return
        told[boot] = max(told.get(boot, 0), value)
        while len(told) > _MOST_BOOTS:
            del told[next(iter(told))]

    def count_from_here(self) -> None:
        """Ignores gaps before this point, because not all earlier messages were read."""
        for stream in self._streams.values():
            if stream.numbers:
                stream.counted_from = stream.numbers[-1][1]

    # --- What it says ---

    @property
    def report_s(self) -> float:
        """The reporting interval that the board announced; 0: none."""
        told = self.sensors.get(silence.REPORT_S)
        return max(told.newest.value, 0.0) if told is not None and told.recent else 0.0

    @property
    def silent_after_s(self) -> float:
        return silence.after_s(self.report_s, self.usual_s, self.messages)

    def found(
        self, *, silent_s: float, listened_s: float, count_missing: bool
    ) -> list[attention.Finding]:
        row = self.row(count_missing=count_missing)
        return attention.of_device(
            row, silent_s=silent_s, usual_s=self.usual_s, listened_s=listened_s
        )

    def row(self, *, count_missing: bool) -> dict:
        """The row for attention.of_device(). Conflicting messages are not searched for here; the
        pipeline finds them."""
        missing = [one.missing() for one in self._streams.values()] if count_missing else []
        newest = [(name, one.newest.value) for name, one in self.sensors.items() if one.recent]
        faults = [sensor_notes.words(name, value) for name, value in newest]
        health = {name: sum(self._health.get(name, {}).values()) for name in _HEALTH}
        return {
            **health,
            "device": self.name,
            "missing_closed": sum(closed for closed, _ in missing),
            "missing_open": sum(still_open for _, still_open in missing),
            "conflicts": 0,
            "two_boards": False,
            "backlog_last": self.backlog,
            "unwanted": self._restarts.unwanted(self.last_seen_ms, self.messages),
            "report_s": self.report_s,
            "messages": self.messages,
            "readings_without_time": self._untimed,
            "sensor_faults": [words for words in faults if words],
            "clock_ahead_s": self._ahead_ms / 1000,
        }


def _clock(stream: _Stream, message: Message) -> int | None:
    """Milliseconds to add to an uptime of the message's boot; None if they are not known."""
    first = message.readings[0]
    up = message.uptime_s
    if up is not None and first.time_s is not None:
        offset_ms = round((first.time_s - first.shift_s - up) * 1000)
        stream.clock = (message.boot, message.seq, offset_ms)
    known = stream.clock
    return known[2] if known is not None and known[0] == message.boot else None


def _placed(reading: Reading, message: Message, offset_ms: int | None) -> int | None:
    """When the reading was taken, in ms since 1970; None: not known."""
    if reading.time_s is not None:
        return round(reading.time_s * 1000)
    if offset_ms is None or message.uptime_s is None:
        return None
    return round((message.uptime_s + reading.shift_s) * 1000) + offset_ms


def _cause(message: Message) -> float | None:
    told = (reading.value for reading in message.readings if reading.name == restarts.CAUSE)
    return next(told, None)

"""One board, as its messages describe it: newest values, missing messages, health.

Every message may arrive twice, and messages may arrive in any order; the final state is the same.
Bounded by the constants below. Pure: no files, no clock, no HTML.
"""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from outpost_tools.common import attention, ranges, restarts, sensor_notes, silence
from outpost_tools.common.labels import HEALTH_COUNTS, HEALTH_STATES
from outpost_tools.common.message import Message
from outpost_tools.common.senml import Reading
from outpost_tools.live.history import History

MOST_SENSORS = 64
RECENT = 40  # readings of a sensor, for its sparkline
_MOST_STREAMS, _MOST_GAPS, _MOST_BOOTS, _MOST_TIMES = 8, 500, 64, 32
_MOST_TEXT = 64  # of a name or a unit
_HEALTH = frozenset((*HEALTH_STATES, *HEALTH_COUNTS))
_BATTERY = re.compile(r"v?batt?(ery)?(_.*)?$", re.IGNORECASE)
_SIGNAL = re.compile(r"(signal|rssi|wifi_signal)$", re.IGNORECASE)
_FIRMWARE = re.compile(r"(firmware|fw)(_version)?$", re.IGNORECASE)


@dataclass(order=True, slots=True)
class Point:
    """version: the fleet's version when the point arrived."""

    time_ms: int
    value: float
    version: int = field(compare=False)


class Sensor:
    """The newest reading, the last RECENT ones, and the history. All have the unit of the newest
    reading. is_arrival: the board's clock was not set, so the time of the newest reading is that of
    its message's arrival."""

    def __init__(self, number: int, name: str, unit: str) -> None:
        self.number, self.name, self.unit = number, name, unit
        self.recent: list[Point] = []
        self.history = History()
        self.is_arrival = False
        # when it last changed; when all points last had to be replaced: older readings, a new unit
        self.version = self.reset_version = 0

    @property
    def newest(self) -> Point:
        return self.recent[-1]

    def takes(self, point: Point, unit: str) -> bool:
        """Whether the point may be added. If it has another unit and is the newest, the sensor
        restarts with that unit. If it has another unit and is older, it is refused: such points
        arrive later, because the log is read from its end."""
        if unit == self.unit or not self.recent:
            self.unit = unit
            return True
        if point < self.newest:
            return False
        self.unit, self.recent, self.history = unit, [], History()
        self.reset_version = point.version
        return True

    def add(self, point: Point, *, is_arrival: bool, now_ms: int) -> None:
        self.history.add(point.time_ms, point.value, now_ms)
        is_newest = not self.recent or point >= self.recent[-1]
        if is_newest:
            self.recent.append(point)
            self.is_arrival = is_arrival
        elif len(self.recent) < RECENT or point > self.recent[0]:
            insort(self.recent, point)
            self.reset_version = point.version
        else:
            return
        del self.recent[:-RECENT]
        self.version = point.version


def _unit(reading: Reading) -> str:
    return (reading.unit or "")[:_MOST_TEXT]


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


class Board:
    """Call take() for each message. version: when the newest values last changed. facts_version:
    when anything else that its page shows last changed."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self.number = name, number
        self.sensors: dict[str, Sensor] = {}
        self.first_seen_ms = self.last_seen_ms = 0
        self.backlog = 0
        self.messages = self.hidden_sensors = 0
        self.version = self.facts_version = 0
        self.findings: list[attention.Finding] = []
        self._newest: tuple[int, str, int] = (-1, "", -1)
        self._streams: dict[str, _Stream] = {}
        self._restarts = restarts.Restarts()
        self._health: dict[str, dict[tuple[str, int], int]] = {}
        self._times: list[int] = []
        self._untimed = 0
        self._ahead_ms = 0  # how far the board's clock is ahead, according to the newest message

    def take(
        self, message: Message, received_ms: int, now_ms: int, version: int, free: Iterable[int]
    ) -> bool:
        """free: numbers for new sensors. Returns False if the message came before."""
        stream = self._stream(message.stream)
        self._see(message, received_ms)
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

    def _see(self, message: Message, received_ms: int) -> None:
        self.first_seen_ms = min(self.first_seen_ms or received_ms, received_ms)
        self.last_seen_ms = max(self.last_seen_ms, received_ms)
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
            insort(self._times, time_ms)
            del self._times[:-_MOST_TIMES]
        sensor = self._sensor(reading, version, free)
        point = Point(time_ms, reading.value, version)
        if sensor is not None and self._fits(sensor, point, _unit(reading)):
            sensor.add(point, is_arrival=is_arrival, now_ms=now_ms)

    def _fits(self, sensor: Sensor, point: Point, unit: str) -> bool:
        before = sensor.unit
        fits = sensor.takes(point, unit)
        if sensor.unit != before:
            self.facts_version = point.version
        return fits

    def _sensor(self, reading: Reading, version: int, free: Iterable[int]) -> Sensor | None:
        """None if the board, or the fleet, has too many sensors."""
        name = reading.name[:_MOST_TEXT]
        found = self.sensors.get(name)
        if found is None:
            self.facts_version = version
            number = next(iter(free), None) if len(self.sensors) < MOST_SENSORS else None
            if number is None:
                self.hidden_sensors += 1
                return None
            found = self.sensors[name] = Sensor(number, name, _unit(reading))
        return found

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

    def first(self, pattern: re.Pattern) -> Sensor | None:
        return next((one for name, one in self.sensors.items() if pattern.match(name)), None)

    @property
    def battery(self) -> Sensor | None:
        return self.first(_BATTERY)

    @property
    def signal(self) -> Sensor | None:
        return self.first(_SIGNAL)

    @property
    def firmware(self) -> Sensor | None:
        return self.first(_FIRMWARE)

    @property
    def usual_s(self) -> float:
        """Seconds between two of its messages; 0: not known."""
        steps = [b - a for a, b in zip(self._times, self._times[1:], strict=False) if b > a]
        return median(steps) / 1000 if steps else 0.0

    @property
    def needs_attention(self) -> bool:
        return any(one.kind.needs_attention for one in self.findings)

    @property
    def oldest_ms(self) -> int:
        """Roughly when its data begins: its oldest kept reading, or its first message's arrival."""
        oldest = (one.recent[0].time_ms for one in self.sensors.values() if one.recent)
        return min(self.first_seen_ms, min(oldest, default=self.first_seen_ms))

    @property
    def report_s(self) -> float:
        """The reporting interval that the board announced; 0: none."""
        told = self.sensors.get(silence.REPORT_S)
        return max(told.newest.value, 0.0) if told is not None and told.recent else 0.0

    @property
    def silent_after_s(self) -> float:
        return silence.after_s(self.report_s, self.usual_s, self.messages)

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

"""What every device on the page has: a name, sensors, when it was seen, and what is found about it.
board.py and foreign_device.py are the two kinds. Pure: no files, no clock, no HTML.
"""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Iterable
from statistics import median
from typing import Any

from outpost_tools.attention import attention
from outpost_tools.servers.live.sensor import Point, Sensor

MOST_SENSORS = 64
_MOST_TIMES = 32
_MOST_TEXT = 64  # of a name or a unit
_BATTERY = re.compile(r"v?batt?(ery)?(_.*)?$", re.IGNORECASE)
_SIGNAL = re.compile(r"(signal|rssi|wifi_signal)$", re.IGNORECASE)


class Device:
    """ident: identifies it among all devices; a board's name, or that of
    readings/sources/idents.py. name:
    as it is shown. version: when the newest values last changed. facts_version: when anything else
    that its page shows last changed."""

    is_foreign = False

    def __init__(self, ident: str, name: str, number: int) -> None:
        self.ident, self.name, self.number = ident, name, number
        self.sensors: dict[str, Sensor] = {}
        self.first_seen_ms = self.last_seen_ms = 0
        self.backlog = 0
        self.messages = self.hidden_sensors = 0
        self.version = self.facts_version = 0
        self.findings: list[attention.Finding] = []
        self._times: list[int] = []

    def _see(self, received_ms: int) -> None:
        self.first_seen_ms = min(self.first_seen_ms or received_ms, received_ms)
        self.last_seen_ms = max(self.last_seen_ms, received_ms)

    def _note_time(self, time_ms: int) -> None:
        """When a message was made."""
        insort(self._times, time_ms)
        del self._times[:-_MOST_TIMES]

    def _fits(self, sensor: Sensor, point: Point, unit: str) -> bool:
        before = sensor.unit
        fits = sensor.takes(point, unit)
        if sensor.unit != before:
            self.facts_version = point.version
        return fits

    def _sensor(self, name: str, unit: str, version: int, free: Iterable[int]) -> Sensor | None:
        """None if the device, or the fleet, has too many sensors."""
        name = name[:_MOST_TEXT]
        found = self.sensors.get(name)
        if found is None:
            self.facts_version = version
            number = next(iter(free), None) if len(self.sensors) < MOST_SENSORS else None
            if number is None:
                self.hidden_sensors += 1
                return None
            found = Sensor(number, name, unit, is_foreign=self.is_foreign)
            self.sensors[name] = found
        return found

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
    def silent_after_s(self) -> float:
        """How long it may send nothing before it counts as silent."""
        raise NotImplementedError

    def found(
        self, *, silent_s: float, listened_s: float, count_missing: bool
    ) -> list[attention.Finding]:
        """What is to be said about it, as attention.of_device() says it. count_missing: the whole
        log was read, so missing numbers mean something."""
        raise NotImplementedError

    @property
    def is_told(self) -> bool:
        """Whether the page's verdict counts it."""
        return True


def unit_of(reading: Any) -> str:
    """The unit of a reading, as it is kept."""
    return (reading.unit or "")[:_MOST_TEXT]

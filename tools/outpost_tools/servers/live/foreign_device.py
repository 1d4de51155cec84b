"""One device of a mapping (sources/): Tasmota, Zigbee2MQTT and others, as its messages describe it.

Every message may arrive twice, and messages may arrive in any order. The laws:

- Copies, which have the same guarantee.identity(), count once. Bounded: the last MOST_COPIES
  identities of each device are kept, so one device's flood forgets no copy of another, and a copy
  further away than that counts twice. A message without an identity counts each time.
- A last known value is shown as such. It is no reading, and the device was not seen.
- The device's state is the word of its will or its bridge. Offline ends with the next message, and
  with the next word. A word is no message, so the device was not seen either.
- There are no numbers, so there are no gaps, no backlog and no confirmation. What is promised
  instead is in `guarantees`, for each of its sources.
- It is silent by its own pauses: silence.of_other_s(). Pure.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from outpost_tools.attention import attention, silence
from outpost_tools.readings.sources.idents import ident
from outpost_tools.servers.live.device import Device, unit_of
from outpost_tools.servers.live.pauses import Pauses
from outpost_tools.servers.live.sensor import Point

if TYPE_CHECKING:
    from outpost_tools.readings.sources.result import Message, Reading, State

MOST_COPIES = 500
_MOST_SOURCES = 16


class ForeignDevice(Device):
    """guarantees: the word of guarantee.py, by source. Call take() for each message, and
    take_state() for each word about it."""

    is_foreign = True

    def __init__(self, name: str, number: int) -> None:
        super().__init__(ident(name), name, number)
        self.guarantees: dict[str, str] = {}
        self._copies: OrderedDict[bytes, None] = OrderedDict()
        self._pauses = Pauses()
        self._state: tuple[int, bool] | None = None  # when it arrived, whether it is online
        self.findings = self.found(silent_s=0.0, listened_s=0.0, count_missing=False)

    def take(
        self, message: Message, identity: bytes | None, seen_ms: int, now_ms: int, version: int,
        free: Iterable[int],
    ) -> bool:  # fmt: skip
        """seen_ms: its arrival. free: numbers for new sensors. Returns False if it is no new
        message: a copy, or a last known value."""
        if message.is_last_known:
            self._promise(message, version)
            for reading in message.readings:
                self._know(reading, message, seen_ms, version, free)
            return False
        before = self.state, bool(self.last_seen_ms)
        self._see(seen_ms)
        if before != (self.state, True):
            self.facts_version = version
        if self._is_copy(identity):
            return False
        self._promise(message, version)
        self.messages += 1
        for reading in message.readings:
            self._add(reading, message, seen_ms, now_ms, version, free)
        self._note_time(seen_ms)
        self._pauses.add(seen_ms)
        self.version = version
        return True

    def take_state(self, state: State, received_ms: int, version: int) -> None:
        if self._state is None or received_ms >= self._state[0]:
            if self._state is None or self._state[1] != state.is_online:
                self.facts_version = version
            self._state = received_ms, state.is_online

    def _is_copy(self, identity: bytes | None) -> bool:
        if identity is None:
            return False
        if identity in self._copies:
            return True
        self._copies[identity] = None
        if len(self._copies) > MOST_COPIES:
            self._copies.popitem(last=False)
        return False

    def _promise(self, message: Message, version: int) -> None:
        is_new = self.guarantees.get(message.source) != message.guarantee
        if is_new and len(self.guarantees) < _MOST_SOURCES:
            self.guarantees[message.source] = message.guarantee
            self.facts_version = version

    def _know(
        self, reading: Reading, message: Message, seen_ms: int, version: int, free: Iterable[int]
    ) -> None:
        sensor = self._sensor(reading.name, unit_of(reading), version, free)
        if sensor is not None:
            time_ms, is_dated = _time(reading, message, seen_ms)
            point = Point(time_ms, reading.value, version)
            sensor.know(point, unit_of(reading), is_dated=is_dated)
            self.facts_version = version

    def _add(
        self, reading: Reading, message: Message, seen_ms: int, now_ms: int, version: int,
        free: Iterable[int],
    ) -> None:  # fmt: skip
        sensor = self._sensor(reading.name, unit_of(reading), version, free)
        if sensor is None:
            return
        time_ms, is_dated = _time(reading, message, seen_ms)
        point, was_known = Point(time_ms, reading.value, version), sensor.is_last_known
        if self._fits(sensor, point, unit_of(reading)):
            sensor.add(point, is_arrival=not is_dated, now_ms=now_ms)
        if was_known:
            self.facts_version = version

    # --- What it says ---

    @property
    def state(self) -> str:
        """ "online" or "offline"; "" if nothing tells. A message after the last word says that it
        is online."""
        if self._state is None:
            return ""
        received_ms, is_online = self._state
        return "online" if is_online or self.last_seen_ms > received_ms else "offline"

    @property
    def is_told(self) -> bool:
        """Not if there are only last known values: they say nothing about how the device is."""
        return bool(self.last_seen_ms) or self.needs_attention

    @property
    def oldest_ms(self) -> int:
        return super().oldest_ms or min(
            (one.newest.time_ms for one in self.sensors.values()), default=0
        )

    @property
    def silent_after_s(self) -> float:
        return silence.of_other_s(self._pauses.longest_s, self._pauses.known_s)

    def found(
        self, *, silent_s: float, listened_s: float, count_missing: bool
    ) -> list[attention.Finding]:
        return attention.of_other(
            is_offline=self.state == "offline", is_heard=bool(self.last_seen_ms),
            silent_s=silent_s, listened_s=listened_s, after_s=self.silent_after_s,
        )  # fmt: skip


def _time(reading: Reading, message: Message, seen_ms: int) -> tuple[int, bool]:
    """(its time in ms, whether the device gave it)."""
    if message.time_from == "device" and reading.time_us is not None:
        return reading.time_us // 1000, True
    return seen_ms, False

"""Other people's frames of the log, read by a mapping, for the fleet: what they are, within bounds.

A flood of new names costs its sender. bounds.Names refuses new names beyond the limits of the file;
each source gets at most SENSORS_OF_SOURCE of the sensors for other people's devices, which are not
those for boards; and beyond MOST_DEVICES, which four sources must exhaust together, there are no
new devices. Devices that are known go on. Everything that is refused is counted with its reason.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from outpost_tools.log.segment_frames import Frame
from outpost_tools.messages import message
from outpost_tools.messages.reasons import Reasons
from outpost_tools.readings.sources import guarantee
from outpost_tools.readings.sources.as_board import as_board
from outpost_tools.readings.sources.belongs import is_foreign
from outpost_tools.readings.sources.bounds import DEVICES, Names
from outpost_tools.readings.sources.decode import of_frame
from outpost_tools.readings.sources.mapping import Mapping
from outpost_tools.readings.sources.result import Ignored, Message, Refused, State
from outpost_tools.servers.live.foreign_device import ForeignDevice

MOST_DEVICES = 4 * DEVICES
MOST_SENSORS, SENSORS_OF_SOURCE = 20_000, 5000


class Others:
    """devices: how many there are. refused: how many messages could not be read, by reason."""

    def __init__(self, mapping: Mapping, first_number: int) -> None:
        """first_number: where the numbers of its sensors begin."""
        limits = mapping.limits
        self.devices = 0
        self.refused = Reasons()
        self._mapping = mapping
        self._names = Names(min(limits.devices, DEVICES), limits.metrics)
        numbers = iter(range(first_number, first_number + MOST_SENSORS))
        self._free = {
            one.name: itertools.islice(numbers, SENSORS_OF_SOURCE) for one in mapping.sources
        }

    def has(self, frame: Frame) -> bool:
        return is_foreign(self._mapping, frame.topic, frame.payload)

    def read(self, frame: Frame) -> Message | State | None:
        """None if there is nothing in it for the page."""
        found = of_frame(self._mapping, frame)
        if isinstance(found, Ignored):
            return None
        if isinstance(found, Refused):
            self.refused.note(found.reason, found.source)
            return None
        names = {one.name for one in found.readings} if isinstance(found, Message) else set()
        reason = self._names.refuses(found.source, found.device, names)
        if reason:
            self.refused.note(reason, found.source)
            return None
        return found

    def new_device(self, found: Message | State, numbers: Iterator[int]) -> ForeignDevice | None:
        """The device of a message; None if there are too many."""
        if self.devices >= MOST_DEVICES:
            reason = f"a new device, and the page shows {MOST_DEVICES} already"
            self.refused.note(reason, found.source)
            return None
        self.devices += 1
        return ForeignDevice(found.device, next(numbers))

    def give(
        self, device: ForeignDevice, found: Message | State, frame: Frame, seen_ms: int,
        now_ms: int, version: int,
    ) -> message.Message | None:  # fmt: skip
        """Gives the device what was read. Returns a new message, as others take it."""
        if isinstance(found, State):
            device.take_state(found, frame.received_ms, version)
            return None
        identity = guarantee.identity(found, frame.topic, frame.payload)
        free = self._free[found.source]
        is_new = device.take(found, identity, seen_ms, now_ms, version, free)
        return as_board(found, seen_ms / 1000) if is_new else None

    @staticmethod
    def newest_s(found: Message | State) -> float | None:
        """The time that its device gave its newest reading."""
        if isinstance(found, State) or found.time_from != "device":
            return None
        return max((one.time_us or 0 for one in found.readings), default=0) / 1e6

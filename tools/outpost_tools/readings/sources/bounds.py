"""The limits that keep a hostile or broken sender from filling tables and pages. Pure.

decode() enforces the limits of a single message. How many names there are is known only to who
sees the messages in order: Names counts them. A flood of new names costs its sender: names beyond a
limit are refused, and those already known go on.
"""

from __future__ import annotations

from collections.abc import Iterable

from outpost_tools.readings.sources.result import Message

MAX_READINGS = 256  # in one message
MAX_DEPTH = 8  # levels of an object
MAX_NAME = 64  # characters of a device's or metric's name
MAX_ID = 128  # characters of a native identifier
DEVICES = 1000  # of one source
METRICS = 1000  # of one device


def is_name(text: str) -> bool:
    """Whether it can name a device or a metric: a table, page and terminal can show it."""
    return 0 < len(text) <= MAX_NAME and text.isprintable()


class Names:
    """The devices of each source and the metrics of each device, as first seen."""

    def __init__(self, devices: int = DEVICES, metrics: int = METRICS) -> None:
        self._most = devices, metrics
        self._known: dict[str, dict[str, set[str]]] = {}

    def refusal(self, message: Message) -> str:
        """Takes the message's names in; "" or the reason to refuse the message."""
        names = {one.name for one in message.readings}
        return self.refuses(message.source, message.device, names)

    def know(self, source: str, device: str, names: Iterable[str]) -> set[str]:
        """These were seen before. Returns the device's names, which grow."""
        known = self._known.setdefault(source, {}).setdefault(device, set())
        known.update(names)
        return known

    def refuses(self, source: str, device: str, names: set[str]) -> str:
        """As refusal(), of a message with these names."""
        devices, metrics = self._most
        of_source = self._known.setdefault(source, {})
        known = of_source.get(device)
        if known is None:
            if len(of_source) >= devices:
                return f"a new device, and this source has {devices} already"
            known = of_source[device] = set()
        new = names - known
        if new and len(known) + len(new) > metrics:
            return f"{len(new)} new names, and this device has {len(known)} of {metrics} already"
        known |= new
        return ""

"""The topics that the republisher reads and writes. Pure.

    PREFIX/<board>/data             the board's messages: read
    PREFIX/<board>/state            online, offline (its will) or asleep: read
    PREFIX/<board>/latest/<sensor>  the newest value, a plain number
    PREFIX/<board>/latest           the newest values of all its sensors: a SenML pack with full
                                    names and times since 1970
    PREFIX/<board>/available        online while those are current, otherwise offline
    PREFIX/collectors/.latest       the republisher: online, offline (its will)

Everything that the republisher writes is retained. <board> is also a device of a mapping; then it
is what readings/sources/idents.py makes of its name, so it is never that of a board.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, unquote

ONLINE, OFFLINE = b"online", b"offline"


@dataclass(frozen=True, slots=True)
class Topics:
    prefix: str

    @property
    def ours(self) -> str:
        return f"{self.prefix}/collectors/.latest"

    def of(self, device: str, last: str) -> str:
        return f"{self.prefix}/{device}/{last}"

    def state(self, device: str) -> str:
        return self.of(device, "state")

    def available(self, device: str) -> str:
        return self.of(device, "available")

    def latest(self, device: str) -> str:
        return self.of(device, "latest")

    def value(self, device: str, sensor: str) -> str:
        """The topic of a sensor's value. Characters of the name that a topic must not contain are
        escaped as in a URL."""
        return f"{self.latest(device)}/{quote(sensor, safe=':')}"

    def sensor(self, topic: str) -> str:
        return unquote(topic.rpartition("/")[2])

    def split(self, topic: str) -> tuple[str, str] | None:
        """(board, rest) of a topic that is two or more levels below the prefix; None for others."""
        if not topic.startswith(self.prefix + "/"):
            return None
        device, _, last = topic[len(self.prefix) + 1 :].partition("/")
        return (device, last) if device and last else None

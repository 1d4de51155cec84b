"""One sensor: its newest reading, the last RECENT ones, the history, and perhaps a last known
value. Pure.

Law of a last known value: it is what a broker remembered when the collector subscribed, and no new
reading. It is shown, as such, while no reading is newer. It is never among the readings.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field

from outpost_tools.servers.live.history import History

RECENT = 40  # readings of a sensor, for its sparkline


@dataclass(order=True, slots=True)
class Point:
    """version: the fleet's version when the point arrived."""

    time_ms: int
    value: float
    version: int = field(compare=False)


class Sensor:
    """The newest reading, the last RECENT ones, and the history. All have the unit of the newest
    reading. is_arrival: the time of the newest reading is that of its message's arrival, because
    the board's clock was not set, or the device gives no times. is_foreign: its name is somebody
    else's, and means nothing to us. known: the last known value; None: none."""

    def __init__(self, number: int, name: str, unit: str, *, is_foreign: bool = False) -> None:
        self.number, self.name, self.unit = number, name, unit
        self.is_foreign = is_foreign
        self.known: Point | None = None
        self.is_known_dated = False  # the device itself said when it measured `known`
        self.recent: list[Point] = []
        self.history = History()
        self.is_arrival = False
        # when it last changed; when all points last had to be replaced: older readings, a new unit
        self.version = self.reset_version = 0

    @property
    def newest(self) -> Point:
        """What is shown. There is none before the first add() or know()."""
        return self.known if self.known is not None and self.is_last_known else self.recent[-1]

    @property
    def is_last_known(self) -> bool:
        """Whether the newest value is only a last known one."""
        known = self.known
        return known is not None and (not self.recent or self.recent[-1].time_ms < known.time_ms)

    def know(self, point: Point, unit: str, *, is_dated: bool) -> None:
        """Takes a last known value. One in another unit than the readings is left out."""
        if self.recent and unit != self.unit:
            return
        if self.known is None or point >= self.known:
            self.known, self.unit, self.is_known_dated = point, unit, is_dated

    def takes(self, point: Point, unit: str) -> bool:
        """Whether the point may be added. If it has another unit and is the newest, the sensor
        restarts with that unit. If it has another unit and is older, it is refused: such points
        arrive later, because the log is read from its end."""
        if unit == self.unit or not self.recent:
            self.unit = unit
            return True
        if point < self.recent[-1]:
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

"""The collectors' log as the pipeline reads it: sealed segments, which never change and are
numbered without gaps. So a range of numbers always yields the same frames.

Knows no tables, and neither Spark nor Arrow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from outpost_tools.common.errors import ToolError
from outpost_tools.store.at import at
from outpost_tools.store.base import Store

_NAME = re.compile(r"segment-([0-9]{12,})\.seg")
_NO_COLLECTORS = {"lost+found"}  # the log may be a disk of its own


class Segment(NamedTuple):
    """`size`: in bytes."""

    collector: str
    number: int
    size: int


class Behind(ToolError):
    """The log lacks segments that must be there; str() says which."""


def file_name(number: int) -> str:
    return f"segment-{number:012d}.seg"


@dataclass(frozen=True)
class Log:
    """The folder of all collectors."""

    store: Store

    @classmethod
    def at(cls, place: object) -> Log:
        return place if isinstance(place, cls) else cls(at(place))

    def __str__(self) -> str:
        return str(self.store)

    def collectors(self) -> list[str]:
        names = self.store.folders()
        return [name for name in names if name not in _NO_COLLECTORS and not name.startswith(".")]

    def sealed(self, collector: str, after: int = -1, before: int | None = None) -> list[Segment]:
        """Those with a higher number than `after` and a lower one than `before`, in order."""
        ends = (file_name(after) if after >= 0 else "", "" if before is None else file_name(before))
        found = []
        for one in (self.store / collector).entries(*ends):
            if match := _NAME.fullmatch(one.name):
                found.append(Segment(collector, int(match[1]), one.size))
        return found

    def all_sealed(self) -> dict[str, list[Segment]]:
        """By collector; those without any are left out."""
        found = {name: self.sealed(name) for name in self.collectors()}
        return {name: segments for name, segments in found.items() if segments}

    def read(self, collector: str, number: int) -> bytes:
        """Raises FileNotFoundError."""
        return (self.store / collector).get(file_name(number))

    def after(self, collector: str, taken: int) -> list[Segment]:
        """The segments after the last that was taken in (-1: none). Raises Behind when the log ends
        before it: a collector that goes on there uses numbers a second time, and nobody would read
        those segments."""
        found = self.sealed(collector, after=taken - 1)
        if taken >= 0 and not found:
            raise Behind(
                f"the log of collector {collector} ends before segment {taken}, which has been "
                "taken in: an older copy of it? Put the newer one back, or start again with new "
                "tables"
            )
        return [one for one in found if one.number > taken]

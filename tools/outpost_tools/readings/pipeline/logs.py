"""The collectors' log as the pipeline reads it: sealed segments, which never change and are
numbered without gaps. So a range of numbers always yields the same frames.

Knows no tables, and neither Spark nor Arrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from outpost_tools.errors import ToolError
from outpost_tools.log import identity, segments
from outpost_tools.store.at import at
from outpost_tools.store.base import Store


class Segment(NamedTuple):
    """`size`: in bytes."""

    collector: str
    number: int
    size: int


class Behind(ToolError):
    """The log lacks segments that must be there; str() says which."""


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
        return [folder.name for folder in segments.collector_folders(self.store)]

    def sealed(self, collector: str, after: int = -1, before: int | None = None) -> list[Segment]:
        """Those with a higher number than `after` and a lower one than `before`, in order."""
        found = segments.sealed_segments(self.store / collector, after, before)
        return [Segment(collector, segments.segment_number(one), one.size) for one in found]

    def all_sealed(self) -> dict[str, list[Segment]]:
        """By collector; those without any are left out."""
        found = {name: self.sealed(name) for name in self.collectors()}
        return {name: sealed for name, sealed in found.items() if sealed}

    def identity(self, collector: str) -> identity.Identity | None:
        return identity.read(self.store / collector)

    def read(self, collector: str, number: int) -> bytes:
        """Raises FileNotFoundError."""
        return (self.store / collector).get(segments.sealed_name(number))


class Listing:
    """The log as it was when it was listed: once for all rounds of a run, from the last segment on
    that was taken in, and again when that one is not among them."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._collectors: list[str] | None = None
        self._found: dict[str, tuple[int, list[Segment]]] = {}  # (the number from which on, ...)

    def collectors(self) -> list[str]:
        if self._collectors is None:
            self._collectors = self.log.collectors()
        return self._collectors

    def since(self, collector: str, number: int) -> list[Segment]:
        """Those from that number on."""
        begin, found = self._found.get(collector, (number + 1, []))
        if number < begin or not found or found[-1].number < number:  # a rival has listed more
            found = self.log.sealed(collector, after=number - 1)
            self._found[collector] = number, found
        return [one for one in found if one.number >= number]

    def after(self, collector: str, taken: int) -> list[Segment]:
        """The segments after the last that was taken in (-1: none). Raises Behind when the log ends
        before it: a collector that goes on there uses numbers a second time, and nobody would read
        those segments."""
        found = self.since(collector, taken)
        if taken >= 0 and not found:
            raise Behind(
                f"the log of collector {collector} ends before segment {taken}, which has been "
                "taken in: an older copy of it? Put the newer one back, or start again with new "
                "tables"
            )
        return [one for one in found if one.number > taken]

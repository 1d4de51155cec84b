"""When Durable learns the keys of a message.

The law. With --confirm-tables, `Durable` learns the keys of a message only when the tables have the
whole of its segment. So confirmations, gap reports, statements and the snapshot, which all come
from Durable, promise the tables and not the log. Without the option, it learns them at once.

Whole segments, not the numbers in `readings`: a message in quarantine is in the tables too, and its
board must be allowed to erase it.

Keys that wait are kept as ranges, for each segment. Beyond _MOST entries, or _MOST_BOARDS in them,
the neighbours that span the fewest segments are merged into one, which waits for the later of its
segments. So a key is confirmed late, never early, and an entry spans at most a part of what waits.
Always to merge the oldest would let its end run ahead of the tables: nothing would ever be
confirmed.

The snapshot covers segments whose keys are all in Durable, so those that wait stay in the log
(readings/pipeline/consumed.py) and are read again at the next start. What a start finds in the
snapshot may be from a run without the option, or for tables that were recreated since: what was not
confirmed of it waits, as one entry. What was confirmed stays confirmed.

A segment before the first that the tables ever took is never in them. Its keys are dropped: the
board sends the messages again, and they come into a later segment.

Pure: no files, no network, no clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from outpost_tools.messages.message import Key
from outpost_tools.messages.ranges import Ranges, cover
from outpost_tools.servers.collect.durable import Durable

_MOST = 16
_MOST_BOARDS = 250_000  # in all entries; about 500 bytes each

OfDevices = dict[str, dict[str, Ranges]]  # device, stream; the stream used last is the last


class Extent(NamedTuple):
    """The segments first..last that the tables have; none if last < first."""

    first: int
    last: int


NOTHING = Extent(0, -1)


class Admission:
    """Durable means: in the log."""

    waiting_segments = 0  # with keys that Durable does not know yet

    def __init__(self, durable: Durable) -> None:
        self._durable = durable

    def add(self, keys: Sequence[Key], segment: int) -> set[str]:
        """Messages that are in this segment, whose number is never lower than at the last call.
        Returns the devices that may be confirmed."""
        self._durable.add_all(keys)
        return {key[0] for key in keys}

    def take_withdrawn(self) -> bool:
        """Whether Durable has lost keys since the last call."""
        return False

    def covered(self, segment: int) -> int:
        """The last segment up to this one whose keys, and those before it, are all in Durable."""
        return segment


@dataclass(slots=True)
class _Entry:
    """The keys of segments first..last."""

    first: int
    last: int
    keys: OfDevices = field(default_factory=dict)
    segments: int = 1  # that have keys

    def add(self, keys: Sequence[Key]) -> None:
        for device, stream, seq, held in keys:
            ranges = self._of(device, stream)
            if held and not (ranges and ranges[0][0] == 0 and ranges[0][1] >= held - 1):
                cover(ranges, 0, held - 1)
            cover(ranges, seq, seq)

    def merge(self, later: _Entry) -> None:
        self.last, self.segments = later.last, self.segments + later.segments
        for device, streams in later.keys.items():
            for stream, more in streams.items():
                ranges = self._of(device, stream)
                for first, last in more:
                    cover(ranges, first, last)

    def _of(self, device: str, stream: str) -> Ranges:
        streams = self.keys.setdefault(device, {})
        ranges = streams.pop(stream, [])
        streams[stream] = ranges
        return ranges


class AfterTables(Admission):
    """Durable means: in the tables. What `durable`, loaded from a snapshot of segments up to
    `through`, knows and has not confirmed waits, too."""

    def __init__(self, durable: Durable, through: int) -> None:
        super().__init__(durable)
        self._waiting: list[_Entry] = []
        self._reached = NOTHING
        self._has_withdrawn = False
        self._withdraw(through)

    @property
    def waiting_segments(self) -> int:  # type: ignore[override]
        return sum(entry.segments for entry in self._waiting)

    def add(self, keys: Sequence[Key], segment: int) -> set[str]:
        if not keys:
            return set()
        if not self._waiting or self._waiting[-1].last < segment:
            self._waiting.append(_Entry(segment, segment))
        self._waiting[-1].add(keys)
        self._bound()
        return self._admit()

    def reach(self, extent: Extent) -> set[str]:
        """The tables have these segments; fewer than before if they were recreated. Returns the
        devices that may be confirmed."""
        before, self._reached = self._reached, extent
        if extent.last < before.last or extent.first > before.first:
            self._withdraw(before.last)
        return self._admit()

    def take_withdrawn(self) -> bool:
        found, self._has_withdrawn = self._has_withdrawn, False
        return found

    def covered(self, segment: int) -> int:
        return min([segment, *(entry.first - 1 for entry in self._waiting[:1])])

    def _admit(self) -> set[str]:
        devices: set[str] = set()
        while self._waiting and self._waiting[0].last <= self._reached.last:
            entry = self._waiting.pop(0)
            if entry.first < self._reached.first:
                continue
            for device, streams in entry.keys.items():
                devices.add(device)
                for stream, ranges in streams.items():
                    self._durable.add_ranges(device, stream, ranges)
        return devices

    def _withdraw(self, through: int) -> None:
        """What is not confirmed waits until the tables have these segments."""
        keys = self._durable.withdraw()
        if keys:
            self._has_withdrawn = True
            self._waiting.insert(0, _Entry(0, through, keys))
            self._bound()

    @property
    def _is_large(self) -> bool:
        count, boards = len(self._waiting), sum(len(entry.keys) for entry in self._waiting)
        return count > _MOST or (count > 2 and boards > _MOST_BOARDS)

    def _bound(self) -> None:
        while self._is_large:
            pairs = range(len(self._waiting) - 1)
            at = min(pairs, key=lambda i: self._waiting[i + 1].last - self._waiting[i].first)
            self._waiting[at].merge(self._waiting.pop(at + 1))

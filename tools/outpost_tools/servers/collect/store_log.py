"""The log in a bucket: no disk, and nothing to lose with the machine.

    segment-*.seg   one object each, whole and sealed, created if absent; the first that creates a
                    number has it
    state.json      the snapshot, see state.py
    foreign.after   a number: the packet identifiers in the segments up to it mean nothing, because
                    the broker has lost the session that they are from

Messages are gathered for up to `segment_seconds`, so that many boards share a PUT, which is what
the service is paid for. One PUT is under way at a time, in the background: meanwhile the next
segment is gathered. PUBACKs and confirmations follow the answer.

A PUT whose answer is lost is sent again with the same bytes, and what is there already with these
bytes is ours. If it has others, another collector writes under this name, and this one ends. One
exception: the last PUT of this collector's previous life may arrive after the start has looked, so
the first number of a life may be taken; its messages then count as stored.

A segment's end has the packet identifiers of other people's messages, so they become durable with
them and cost no PUT. A start reads those of the newest 64 segments, or 65,535 messages. A broker
that sends without waiting for PUBACKs fills these in a minute or more, and misses the connection
sooner; one that waits has fewer messages in flight than they hold. In the exception above, the
messages that come again before the number is found taken are stored twice.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from outpost_tools.log import segments
from outpost_tools.servers.collect.background import Task
from outpost_tools.servers.collect.batch import Batch
from outpost_tools.servers.collect.identifiers import digest
from outpost_tools.servers.collect.log import (
    Log,
    LogBusyError,
    Stored,
    add_keys,
    admission_of,
    identity_of,
)
from outpost_tools.servers.collect.state import SNAPSHOT, Whole
from outpost_tools.store import probe
from outpost_tools.store.base import Store

SEGMENT_BYTES = 4 << 20  # a slow line must carry it within the client's timeout, 30 s
SEGMENT_S = 1.0
_MESSAGES = 16_000  # of a segment: two of these have enough packet identifiers
_POLL_S = 0.01
# A broker that allows few messages in flight sends no more before it has our PUBACKs: recognised by
# a pause after as many messages as the last segment had.
_STALL_MESSAGES, _STALL_S = 10, 0.05
_READERS = 8  # at the start
_AFTER, _NEWEST = "foreign.after", 64
_MOST_IDS = 65_535  # that MQTT has
_NO_ID = bytes(2)


@dataclass(slots=True)
class _Segment:
    """Sealed: its bytes never change, however often the PUT is repeated."""

    data: bytes
    batches: list[Batch]


class StoreLog(Log):
    """Reads what is there, and probes the bucket."""

    def __init__(
        self,
        root: Store,
        collector: str,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        segment_seconds: float = SEGMENT_S,
        keep_news: bool = False,
        waits_for_tables: bool = False,
        is_new: bool = False,
    ) -> None:
        """keep_news: see Durable. waits_for_tables: see admission.py. is_new: see identity_of().
        Raises LogBusyError, ToolError (a bucket without conditional writes), OSError."""
        self.collector = collector
        self.folder = root / collector
        self.place = str(self.folder)
        self.in_flight = 2 * _MESSAGES
        self._most_bytes, self._most_s = segment_bytes, segment_seconds
        self._gathered: list[Batch] = []
        self._messages = self._bytes = self._last_messages = 0
        self._began_at = self._added_at = 0.0
        self._segment: _Segment | None = None  # whose PUT has not succeeded
        self._put: Task[bool] | None = None
        self._saving: Task[None] | None = None
        self._recovered: list[segments.Recovered] = []
        self._after: bytes | None = None  # to be put
        self._is_first = True  # of this life
        probe.check(self.folder)
        self._snapshot = Whole(self.folder, collector)
        self._load(keep_news=keep_news, waits_for_tables=waits_for_tables)
        if waits_for_tables:
            self.identity = identity_of(self.folder, self.stored_through, is_new=is_new)

    @property
    def stored_through(self) -> int:
        return self._number - 1

    @property
    def readable_through(self) -> int:
        """A PUT that nobody has answered may have arrived; at first, one of the previous life."""
        is_under_way = self._segment is not None or self._is_first
        return self._number if is_under_way else self._number - 1

    @property
    def held(self) -> list[Batch]:
        return [*(self._segment.batches if self._segment else []), *self._gathered]

    @property
    def is_full(self) -> bool:
        return self._segment is not None and self._is_large

    @property
    def wait_s(self) -> float:
        if self._put is not None:
            return _POLL_S
        if not self._gathered:
            return float("inf")
        return max(0.0, min(self._began_at + self._most_s - time.monotonic(), _STALL_S))

    def add(self, batch: Batch) -> None:
        self._added_at = time.monotonic()
        if not self._gathered:
            self._began_at = self._added_at
        self._gathered.append(batch)
        self._messages += len(batch.frames)
        self._bytes += batch.frame_bytes

    def commit(self, *, at_once: bool = False) -> Stored | None:
        stored = self._answered()
        if self._put is None and (self._segment is not None or self._is_due(at_once=at_once)):
            self._begin_put()
        return stored

    def tidy(self) -> None:
        if self._saving is not None:
            if not self._saving.is_over:
                return
            saving, self._saving = self._saving, None
            saving.result()
        through = self.admission.covered(self.stored_through)
        if self._snapshot.is_due(through):
            data = self._snapshot.data(self.durable, through)
            self._saving = Task(lambda: self.folder.put(SNAPSHOT, data))

    def close(self) -> None:
        if self._saving is not None:
            self._saving.result()
        while self.held:
            self._learn_all(self.commit(at_once=True))
            time.sleep(_POLL_S)
        through = self.admission.covered(self.stored_through)
        if through >= self._snapshot.through:  # or segments that it covers may be deleted
            self.folder.put(SNAPSHOT, self._snapshot.data(self.durable, through))

    def newest_sealed(self) -> segments.Contents | None:
        try:
            return segments.contents(
                segments.Segment(self.folder, segments.sealed_name(self.stored_through))
            )
        except FileNotFoundError:  # none yet, or deleted when it was read
            return None

    def identifiers(self) -> dict[bytes, bytes]:
        try:
            after = int(self.folder.get(_AFTER))
        except (FileNotFoundError, ValueError):
            after = -1
        listed = segments.sealed_segments(self.folder, after=max(after, self._number - 1 - _NEWEST))
        found: dict[bytes, bytes] = {}
        messages = 0
        with ThreadPoolExecutor(_READERS) as pool:
            while listed and messages < _MOST_IDS:
                for one in pool.map(segments.contents, reversed(listed[-_READERS:])):
                    found = {**dict(_identifiers(one)), **found}  # the newest first
                    messages += one.frame_count
                del listed[-_READERS:]
        return found

    def forget_identifiers(self) -> None:
        for batch in self._gathered:
            batch.foreign.clear()
        last = self._number if self._segment is not None else self._number - 1
        self._after = b"%d" % last
        with contextlib.suppress(OSError):  # the next PUT tries again
            self._put_after()

    def _put_after(self) -> None:
        after = self._after
        if after is not None:
            self.folder.put(_AFTER, after)
            self._after = None if self._after is after else self._after

    def take_recovered(self) -> list[segments.Recovered]:
        found, self._recovered = self._recovered, []
        return found

    @property
    def _is_large(self) -> bool:
        return self._messages >= _MESSAGES or self._bytes >= self._most_bytes

    def _is_due(self, *, at_once: bool) -> bool:
        if not self._gathered:
            return False
        now = time.monotonic()
        is_stalled = (
            self._messages >= _STALL_MESSAGES
            and self._messages == self._last_messages
            and now - self._added_at >= _STALL_S
        )
        return at_once or self._is_large or is_stalled or now - self._began_at >= self._most_s

    def _begin_put(self) -> None:
        if self._segment is None:
            frames = [frame for batch in self._gathered for frame in batch.frames]
            data = segments.sealed_bytes(frames, _packet_ids(self._gathered))
            self._segment = _Segment(data, self._gathered)
            self._last_messages = self._messages
            self._gathered, self._messages, self._bytes = [], 0, 0
        name, data = segments.sealed_name(self._number), self._segment.data
        self._put = Task(lambda: self._create(name, data))

    def _create(self, name: str, data: bytes) -> bool:
        """In the background."""
        self._put_after()
        return self.folder.create(name, data)

    def _answered(self) -> Stored | None:
        """What the PUT under way has stored, or what needs none. Raises as commit()."""
        if self._segment is None and self._gathered and not self._messages:
            gathered, self._gathered = self._gathered, []
            return Stored(gathered, 0.0)
        if self._put is None or not self._put.is_over or self._segment is None:
            return None
        put, self._put = self._put, None
        if not put.result():
            self._adopt()
            return None
        segment, self._segment = self._segment, None
        self._number += 1
        self._is_first = False
        self._snapshot.stored(len(segment.data))
        return Stored(segment.batches, put.seconds)

    def _adopt(self) -> None:
        """The number is taken. Raises LogBusyError, OSError."""
        if not self._is_first:
            raise LogBusyError(
                f"{self.place} is in use by another collector, which has written segment "
                f"{self._number}; stop it, or give this one another --id. {self.held_messages} "
                "messages neither stored nor acknowledged; the broker keeps them"
            )
        self._add(segments.Segment(self.folder, segments.sealed_name(self._number)))
        self._is_first = False
        self._number += 1

    def _load(self, *, keep_news: bool, waits_for_tables: bool) -> None:
        """The snapshot, and the segments above it."""
        self.durable, through, owner = self._snapshot.load(keep_news=keep_news)
        self.admission = admission_of(self.durable, through, waits_for_tables=waits_for_tables)
        if owner != self.collector:
            raise LogBusyError(
                f"{self.place} was written by collector {owner!r}; use --id {owner} or another "
                "--log"
            )
        listed = segments.sealed_segments(self.folder, after=through)
        with ThreadPoolExecutor(_READERS) as pool:
            for segment, found in zip(listed, pool.map(segments.contents, listed), strict=True):
                self._add(segment, found)
        self._number = 1 + max([through, *map(segments.segment_number, listed[-1:])])

    def _add(self, segment: segments.Segment, found: segments.Contents | None = None) -> None:
        found = found if found is not None else segments.contents(segment)
        add_keys(found, self.admission, segments.segment_number(segment))
        self._snapshot.stored(len(found.data))
        if found.damage:
            self._recovered.append(segments.Recovered(segment, found.damage))


def _packet_ids(batches: list[Batch]) -> bytes:
    """One for each frame; empty if there is none."""
    if not any(batch.foreign for batch in batches):
        return b""
    found: list[bytes] = []
    for batch in batches:
        ids = [_NO_ID] * len(batch.frames)
        for entry in batch.foreign:
            ids[entry.index] = entry.packet_id
        found += ids
    return b"".join(found)


def _identifiers(found: segments.Contents) -> Iterator[tuple[bytes, bytes]]:
    """None of a damaged segment: which frame they belong to is not known."""
    frames = list(found.frames())
    ids = found.packet_ids
    if len(ids) != 2 * len(frames):
        return
    for at, frame in enumerate(frames):
        if (packet_id := ids[2 * at : 2 * at + 2]) != _NO_ID:
            yield packet_id, digest(frame.topic, frame.payload)

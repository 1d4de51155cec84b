"""The log of one collector, `<log>/<id>/`, whatever it lies on. disk_log.py has it in a folder of
this machine, store_log.py in a bucket.

The law. What commit() returns is durable: every later start and every reader of the log finds it,
whatever is killed. What commit() has not returned may be lost, so it is neither acknowledged to the
broker nor confirmed to a board. A segment number is used once, and what it names never changes.

The packet identifiers of other people's messages (Batch.foreign) share this: what is durable has
its identifiers, and a start knows none of a message that is not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from outpost_tools.errors import ToolError
from outpost_tools.log import identity, segments
from outpost_tools.log.identity import Identity
from outpost_tools.messages.message import Key, key_of
from outpost_tools.servers.collect.admission import Admission, AfterTables
from outpost_tools.servers.collect.batch import Batch
from outpost_tools.servers.collect.durable import Durable
from outpost_tools.store.base import Store


class LogBusyError(ToolError):
    """The log belongs to another collector; str() says which and what to do."""


class Stored(NamedTuple):
    """Batches that have become durable together, and how long that took."""

    batches: list[Batch]
    seconds: float


class Log(ABC):
    """folder: where. place: the same, for messages. durable: the keys in its segments that count;
    the caller adds those of the batches that commit() returns, by learn(), before it calls
    tidy()."""

    collector: str
    folder: Store
    place: str
    durable: Durable
    admission: Admission  # into `durable`
    identity: Identity | None = None  # if keys wait for the tables
    is_full = False  # take no more before commit() has returned something
    wait_s = float("inf")  # how long commit() will have nothing to do, if nothing is added
    in_flight = 0  # the most messages that the broker need send ahead of their PUBACKs; 0: any
    unsealed_bytes = 0  # durable, but not yet visible to readers
    waiting_uploads = 0  # sealed segments that are not yet where --upload says
    upload_trouble: str | None = None  # why they wait
    is_checked = True  # all segments that the start did not read have been read since

    @property
    @abstractmethod
    def held(self) -> list[Batch]:
        """Batches that were added, and that commit() has not returned."""

    @property
    def held_messages(self) -> int:
        return sum(len(batch.frames) for batch in self.held)

    @property
    @abstractmethod
    def stored_through(self) -> int:
        """Number of the last segment with durable frames, sealed or open; -1 when there is none."""

    @property
    @abstractmethod
    def readable_through(self) -> int:
        """No reader has seen a segment with a higher number."""

    def learn(self, batch: Batch) -> set[str]:
        """What commit() has just returned. Returns the devices that may be confirmed."""
        return self.admission.add(batch.keys, self.stored_through)

    def _learn_all(self, stored: Stored | None) -> None:
        for batch in stored.batches if stored else ():
            self.learn(batch)

    @abstractmethod
    def add(self, batch: Batch) -> None:
        """Keeps the batch in memory, for commit()."""

    @abstractmethod
    def commit(self, *, at_once: bool = False) -> Stored | None:
        """What has become durable since the last call, in the order in which it was added.

        at_once: begins to store all that is held, which otherwise may wait for more.

        Raises OSError when the storage refuses; the batches stay, and the next call tries again.
        Raises LogBusyError when another collector writes here.
        """

    @abstractmethod
    def tidy(self) -> None:
        """Call this now and then: seals what is old, and saves the snapshot. Raises OSError."""

    @abstractmethod
    def close(self) -> None:
        """Stores what is held, seals, saves and unlocks. Raises OSError."""

    @abstractmethod
    def newest_sealed(self) -> segments.Contents | None:
        """The newest sealed segment. Raises OSError."""

    @abstractmethod
    def identifiers(self) -> dict[bytes, bytes]:
        """{packet identifier: hash} of the messages in Batch.foreign that earlier runs stored; all
        that the broker may send again. Raises OSError."""

    @abstractmethod
    def forget_identifiers(self) -> None:
        """Those so far mean nothing any more, also of what is held."""

    def take_recovered(self) -> list[segments.Recovered]:
        """What was found damaged, or was cut off, since the last call."""
        return []

    def is_check_due(self, *, is_idle: bool) -> bool:
        return False

    def check_one(self) -> None:  # noqa: B027
        """Reads a sealed segment that the start did not read, if there is one left."""


def admission_of(durable: Durable, through: int, *, waits_for_tables: bool) -> Admission:
    """durable: as loaded from the snapshot of the segments up to `through`."""
    return AfterTables(durable, through) if waits_for_tables else Admission(durable)


def identity_of(folder: Store, through: int, *, is_new: bool) -> Identity:
    """through: the last segment. is_new: tables that have read this log so far count no longer.
    Raises OSError."""
    return identity.renew(folder) if is_new else identity.ensure(folder, through + 1)


def add_keys(found: segments.Contents, admission: Admission, number: int) -> None:
    """Of all frames of that segment."""
    keys = map(frame_key, found.frames())
    admission.add([key for key in keys if key is not None], number)


def frame_key(frame: segments.Frame) -> Key | None:
    """The key of a stored frame that counts for confirmation; None for the others.

    A retained or truncated frame does not count: the tables will not hold it, so a board must not
    forget the message because of it.
    """
    return None if frame.retained or frame.truncated else key_of(frame.topic, frame.payload)

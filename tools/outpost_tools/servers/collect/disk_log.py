"""The log on a disk of this machine: a lock, the segments, and a snapshot of what they hold.
Durable means fsync.

    .lock                  held (flock) by the collector that writes here
    segment-*.seg, .open,
    .cut                   see outpost_tools.log.segments
    state.json, .changes   what is durable in segments 0..n, see state.py
    foreign.ids            packet identifiers of other people's messages, see identifiers.py

The snapshot only saves time. After a kill, the segments above n are read again; without a snapshot,
or with a damaged one, all segments are.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path

from outpost_tools.log import segments
from outpost_tools.servers.collect.audit import Audit
from outpost_tools.servers.collect.batch import Batch
from outpost_tools.servers.collect.identifiers import IdentifierFile
from outpost_tools.servers.collect.log import (
    Log,
    LogBusyError,
    Stored,
    add_keys,
    admission_of,
    identity_of,
)
from outpost_tools.servers.collect.state import Saved
from outpost_tools.servers.collect.upload import Upload
from outpost_tools.store.local import LocalStore

SEGMENT_BYTES = 16 << 20
SEGMENT_S = 5.0  # the age at which a segment is sealed for readers


class Writer(segments.SegmentWriter):
    """Also knows how old its open segment is, and how to abandon it after a failed write."""

    def __init__(self, directory: Path, *, max_bytes: int) -> None:
        super().__init__(directory, max_bytes=max_bytes)
        self._committed = 0
        self._opened_at = 0.0

    @property
    def sealed_through(self) -> int:
        """Number of the last sealed segment, -1 when there is none."""
        return self._number - 1

    @property
    def stored_through(self) -> int:
        """Number of the last segment with durable frames, sealed or open; -1 when there is none."""
        return self._number if self._file is not None and self._committed else self.sealed_through

    def begin_after(self, number: int) -> None:
        """Never use a number twice: segments up to `number` existed, even if readers have deleted
        them since."""
        self._number = max(self._number, number + 1)

    @property
    def length(self) -> int:
        """Bytes in the open segment."""
        return self._length if self._file is not None else 0

    @property
    def age_s(self) -> float:
        """Seconds since the open segment began; 0 when none is open."""
        return time.monotonic() - self._opened_at if self._file is not None else 0.0

    def append_all(self, frames: list[bytes]) -> None:
        if self._file is None:
            self._opened_at = time.monotonic()
            self._committed = 0
        super().append_all(frames)

    def commit(self) -> None:
        super().commit()
        self._committed = self._length

    def abandon(self) -> None:
        """Close the open segment without what was not committed.

        After a failed write or fsync, the kernel may mark pages clean that never reached the disk,
        so a second fsync on the same file proves nothing. The caller makes a new Writer and writes
        its frames again.
        """
        if self._file is None:
            return
        raw = self._file.raw
        try:
            # Frames that were never acknowledged would only take space on a full disk.
            os.ftruncate(raw.fileno(), self._committed)
        finally:
            raw.close()  # closing the buffered file above it would write what is left in its buffer
            self._file = None


class DiskLog(Log):
    """Opens the directory of one collector."""

    def __init__(
        self,
        root: Path,
        collector: str,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        segment_seconds: float = SEGMENT_S,
        keep_news: bool = False,
        upload: Upload | None = None,
        waits_for_tables: bool = False,
        is_new: bool = False,
    ) -> None:
        """keep_news: see Durable. upload: told of every sealed segment. waits_for_tables: see
        admission.py. is_new: see identity_of().

        Raises LogBusyError, OSError, or ValueError (a file in the directory that is not a segment).
        """
        self.directory = root / collector
        self.folder, self.place = LocalStore(self.directory), str(self.directory)
        self.collector = collector
        self._segment_bytes, self._segment_seconds = segment_bytes, segment_seconds
        self._keep_news = keep_news
        self._added: list[Batch] = []
        self._identifiers = IdentifierFile(self.directory)
        self._is_announced = False  # what was added
        self._upload = upload
        self.directory.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(self.directory)
        try:
            self._open(waits_for_tables=waits_for_tables)
            if waits_for_tables:
                self.identity = identity_of(self.folder, self.stored_through, is_new=is_new)
        except BaseException:
            os.close(self._lock)  # a refusal must not lock others out
            raise
        self._tell_upload()

    def _open(self, *, waits_for_tables: bool) -> None:
        self._saved = Saved(self.directory, self.collector)
        self._check_owner()
        self._sealed_through = -1
        self._writer: Writer | None = None
        self._recovered: list[segments.Recovered] = []
        self._unread: list[Path] = []  # the snapshot has their keys
        self._load(waits_for_tables=waits_for_tables)
        self._audit = Audit(self.directory, self._unread)
        self._save()

    @property
    def sealed_through(self) -> int:
        """Number of the last segment that was sealed, -1 when there was none."""
        return self._writer.sealed_through if self._writer is not None else self._sealed_through

    @property
    def stored_through(self) -> int:
        """Number of the last segment with durable frames, sealed or open; -1 when there is none."""
        return self._writer.stored_through if self._writer is not None else self._sealed_through

    @property
    def readable_through(self) -> int:
        return self.sealed_through

    @property
    def unsealed_bytes(self) -> int:
        """Bytes that are durable, but not yet visible to readers."""
        return self._writer.length if self._writer is not None else 0

    @property
    def held(self) -> list[Batch]:
        return self._added

    def add(self, batch: Batch) -> None:
        self._added.append(batch)

    def commit(self, *, at_once: bool = False) -> Stored | None:
        """Everything that was added, at once."""
        if not self._added:
            return None
        began = time.monotonic()
        frames = [frame for batch in self._added for frame in batch.frames]
        foreign = [entry for batch in self._added for entry in batch.foreign]
        if not self._is_announced:  # once: what is announced before the last time counts as stored
            self._identifiers.announce(foreign)
            self._is_announced = True
        if frames:
            self.store(frames)
        self._identifiers.stored(foreign)
        stored, self._added, self._is_announced = self._added, [], False
        return Stored(stored, time.monotonic() - began)

    def tidy(self) -> None:
        self.seal_when_older(self._segment_seconds)

    def newest_sealed(self) -> segments.Contents | None:
        newest = segments.sealed_segments(self.directory)[-1:]
        return segments.contents(newest[0]) if newest else None

    def identifiers(self) -> dict[bytes, bytes]:
        return self._identifiers.load()

    def forget_identifiers(self) -> None:
        self._identifiers.forget()

    def take_recovered(self) -> list[segments.Recovered]:
        found, self._recovered = self._recovered, []
        self._audit.tell(f"{one.segment.stem}.seg" for one in found if one.damage)
        return found

    @property
    def is_checked(self) -> bool:
        return self._audit.is_over

    def is_check_due(self, *, is_idle: bool) -> bool:
        return self._audit.is_due(is_idle=is_idle)

    def check_one(self) -> None:
        if not self._audit.is_over:
            self._recovered += self._audit.next()

    @property
    def waiting_uploads(self) -> int:
        return self._upload.waiting if self._upload is not None else 0

    @property
    def upload_trouble(self) -> str | None:
        return self._upload.trouble if self._upload is not None else None

    def _tell_upload(self) -> None:
        if self._upload is not None:
            self._upload.sealed(self.sealed_through)

    def close(self) -> None:
        self._learn_all(self.commit())
        self.seal_when_older(0)
        self._save(is_whole=True)
        if self._upload is not None:
            self._upload.close()
        os.close(self._lock)

    def store(self, frames: list[bytes]) -> None:
        """Append and make durable, with ONE fsync.

        Raises OSError; none of `frames` then counts as stored.
        """
        try:
            writer = self._open_writer()
            writer.append_all(frames)
            writer.commit()
        except OSError:
            self._leave_writer()
            raise

    def seal_when_older(self, seconds: float) -> None:
        """Seal the open segment when it is at least this old; save the snapshot after any seal.

        Raises OSError.
        """
        try:
            if self._writer is not None and self._writer.age_s >= seconds:
                self._writer.seal()
        except OSError:
            self._leave_writer()
            raise
        self._save()
        self._tell_upload()

    def _save(self, *, is_whole: bool = False) -> None:
        """The loop adds the keys before it seals, so those of the sealed segments are in `durable`,
        but for those that wait."""
        through = self.admission.covered(self.sealed_through)
        if through >= self._saved.sealed_through:  # or segments that it covers may be deleted
            (self._saved.save_all if is_whole else self._saved.save)(self.durable, through)

    def _open_writer(self) -> Writer:
        """The writer; a new one seals what an earlier one, or a killed collector, left open."""
        if self._writer is None:
            writer = Writer(self.directory, max_bytes=self._segment_bytes)
            writer.begin_after(self._sealed_through)
            self._writer = writer
            self._recovered += writer.recovered
        return self._writer

    def _leave_writer(self) -> None:
        """After an error no file is written to again; the next writer seals its committed
        frames."""
        writer, self._sealed_through = self._writer, self.sealed_through
        self._writer = None
        if writer is not None:
            with contextlib.suppress(OSError):
                writer.abandon()

    def _check_owner(self) -> None:
        owner = self._saved.owner
        if owner != self.collector:
            raise LogBusyError(
                f"{self.directory} was written by collector {owner!r}; use --id {owner} or another "
                "--log"
            )

    def _load(self, *, waits_for_tables: bool) -> None:
        """The snapshot and the segments above it."""
        self.durable = self._saved.load(keep_news=self._keep_news)
        self._sealed_through = through = self._saved.sealed_through
        self.admission = admission_of(self.durable, through, waits_for_tables=waits_for_tables)
        self._open_writer()
        for path in segments.sealed_segments(self.directory):
            if segments.segment_number(path) > self._sealed_through:
                self._add_keys(path)
            else:
                self._unread.append(path)

    def _add_keys(self, path: Path) -> None:
        found = segments.contents(path)
        add_keys(found, self.admission, segments.segment_number(path))
        if found.damage and not any(known.segment == path for known in self._recovered):
            self._recovered.append(segments.Recovered(path, found.damage))


def _lock(directory: Path) -> int:
    handle = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise LogBusyError(
            f"{directory} is in use by another collector; stop it, or give this one another --id"
        ) from None
    return handle

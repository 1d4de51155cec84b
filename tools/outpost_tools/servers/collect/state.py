"""Avoids reading all segments at a start: a snapshot of what is durable, and the changes since.

    state.json             {"version": 1, "collector": id, "sealed_through": n, "streams": ...,
                           "latest": ...}: the keys of segments 0..n
    state.changes          a line per seal: CRC-32 in hexadecimal, a space, and
                           {"sealed_through": n, "streams": ..., "latest": ...} with the devices
                           that changed since the previous line

A seal writes only what changed. When the lines have grown longer than the snapshot, the whole
snapshot is replaced and the lines start again, so that on average a seal writes at most twice what
changed.

Kills: the new snapshot is renamed into place before the lines are deleted, and a line counts only
when it is newer than what is known. A torn or damaged line ends the lines. That costs time, never a
key: nobody deletes a segment above the snapshot's own number (readings/pipeline/consumed.py), so
everything in the lines can be read again from the segments. For that reason they need no fsync.

A bucket has no lines, because nothing there can be appended to: see Whole.
"""

from __future__ import annotations

import contextlib
import gc
import io
import itertools
import json
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from outpost_tools.log import segments
from outpost_tools.servers.collect.durable import Durable
from outpost_tools.store.base import Store

VERSION = 1
SNAPSHOT = "state.json"
_SEGMENTS, _MOST_SEGMENTS = 64, 1024
_SPARE_BYTES = 64 * 1024  # a small snapshot is not replaced at each seal
_DEVICES_AT_ONCE = 10_000  # while writing: bounds the memory
_DAMAGE = (LookupError, TypeError, ValueError, AttributeError)


class Saved:
    """The two files in a collector's directory. They hold the keys of the segments up to
    `sealed_through`; it is -1 when there are none."""

    def __init__(self, directory: Path, collector: str) -> None:
        self._snapshot = directory / SNAPSHOT
        self._changes = directory / "state.changes"
        self._collector = collector
        self.sealed_through = -1
        self._room: int | None = None  # left for lines; None: the snapshot must be written first

    @property
    def owner(self) -> str:
        """The collector that wrote here."""
        return self._read().get("collector", self._collector)

    def load(self, *, keep_news: bool) -> Durable:
        """Empty when there is nothing usable."""
        with _no_look_for_cycles():
            state = self._read()
            with contextlib.suppress(*_DAMAGE):
                durable, self.sealed_through = restored(state, keep_news=keep_news)
                self._load_changes(durable)
                return durable
        if state:
            tell_unusable(self._snapshot)
        self.sealed_through = -1
        return Durable(keep_news=keep_news)

    def save(self, durable: Durable, sealed_through: int) -> None:
        """Call only when every key of these segments is in `durable`. Does nothing when they are
        saved already. Raises OSError."""
        if self._room is not None and sealed_through <= self.sealed_through:
            return
        if self._room is None:
            self.save_all(durable, sealed_through)
            return
        devices = durable.changed
        text = json.dumps({"sealed_through": sealed_through, **durable.to_json(devices)}).encode()
        if len(text) > self._room:
            self.save_all(durable, sealed_through)
            return
        room, self._room = self._room, None  # if the write fails, part of the line may be there
        with self._changes.open("ab") as file:
            file.write(b"%08x %s\n" % (zlib.crc32(text), text))
        self._room, self.sealed_through = room - len(text), sealed_through
        durable.changed = set()

    def save_all(self, durable: Durable, sealed_through: int) -> None:
        """Replace the snapshot. Raises OSError."""
        self._room = None
        temporary = self._snapshot.with_suffix(".json.new")
        with temporary.open("w", encoding="utf-8") as file:
            write(file, durable, self._collector, sealed_through)
            file.flush()
            os.fsync(file.fileno())
            length = file.tell()
        temporary.rename(self._snapshot)
        segments.sync_directory(self._snapshot.parent)
        self._changes.unlink(missing_ok=True)
        self._room, self.sealed_through = length + _SPARE_BYTES, sealed_through
        durable.changed = set()

    def _load_changes(self, durable: Durable) -> None:
        length = 0
        try:
            with self._changes.open("rb") as file:
                for line in file:
                    length += len(line)
                    change = _change(line)
                    if change["sealed_through"] > self.sealed_through:
                        durable.replace(change)
                        self.sealed_through = change["sealed_through"]
        except FileNotFoundError:
            pass
        except (OSError, *_DAMAGE):
            return  # the good lines end here: nothing may be appended
        self._room = max(0, self._snapshot.stat().st_size + _SPARE_BYTES - length)

    def _read(self) -> dict[str, Any]:
        try:
            return parsed(self._snapshot.read_bytes())
        except OSError:
            return {}


class Whole:
    """The snapshot alone, put into a store as a whole. It is due when the segments since the last
    one would take a start some time to read, and have as many bytes as a fair part of it."""

    def __init__(self, folder: Store, collector: str) -> None:
        self._folder, self._collector = folder, collector
        self._length = 0
        self.through = -1
        self._bytes = 0  # of the segments since

    def load(self, *, keep_news: bool) -> tuple[Durable, int, str]:
        """(the keys, the last of their segments, the collector that wrote it); empty when there is
        nothing usable. Raises OSError if the store cannot be reached."""
        try:
            data = self._folder.get(SNAPSHOT)
        except FileNotFoundError:
            data = b""
        with _no_look_for_cycles():
            state = parsed(data)
            with contextlib.suppress(*_DAMAGE):
                durable, self.through = restored(state, keep_news=keep_news)
                self._length = len(data)
                return durable, self.through, state["collector"]
        if data:
            tell_unusable(f"{self._folder}/{SNAPSHOT}")
        return Durable(keep_news=keep_news), -1, self._collector

    def stored(self, length: int) -> None:
        """One more segment, of this length."""
        self._bytes += length

    def is_due(self, through: int) -> bool:
        new = through - self.through
        return new >= _SEGMENTS and (new >= _MOST_SEGMENTS or self._bytes >= self._length // 4)

    def data(self, durable: Durable, through: int) -> bytes:
        """To be put. Every key of segments 0..through must be in `durable`."""
        text = io.StringIO()
        write(text, durable, self._collector, through)
        data = text.getvalue().encode()
        self.through, self._length, self._bytes = through, len(data), 0
        durable.changed = set()
        return data


def write(file: IO[str], durable: Durable, collector: str, sealed_through: int) -> None:
    head = {"version": VERSION, "collector": collector, "sealed_through": sealed_through}
    parts = {"streams": durable.streams_json, "latest": durable.latest_json}
    with _no_look_for_cycles():
        file.write(json.dumps(head)[:-1])
        for name, part in parts.items():
            file.write(f', "{name}": {{')
            separator = ""
            for devices in _portions(durable.all_devices()):
                text = json.dumps(part(devices))[1:-1]
                file.write(separator + text if text else "")
                separator = ", " if text or separator else ""
            file.write("}")
        file.write("}")


def parsed(data: bytes) -> dict[str, Any]:
    """Empty if it is no snapshot."""
    try:
        state = json.loads(data)
    except ValueError:
        return {}
    return state if isinstance(state, dict) else {}


def restored(state: dict[str, Any], *, keep_news: bool) -> tuple[Durable, int]:
    """(the keys, the last of their segments). Raises one of _DAMAGE."""
    if state["version"] != VERSION:
        raise ValueError("another version")
    return Durable.from_json(state, keep_news=keep_news), int(state["sealed_through"])


def tell_unusable(place: object) -> None:
    print(f"{place}: not usable, reading all segments", file=sys.stderr)


@contextlib.contextmanager
def _no_look_for_cycles() -> Iterator[None]:
    """Otherwise Python would search millions of new dictionaries for cycles, repeatedly; they have
    none."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _portions(devices: list[str]) -> Iterator[list[str]]:
    rest = iter(devices)
    while portion := list(itertools.islice(rest, _DEVICES_AT_ONCE)):
        yield portion


def _change(line: bytes) -> dict[str, Any]:
    """Raises ValueError."""
    check, _, text = line.partition(b" ")
    if not line.endswith(b"\n") or int(check, 16) != zlib.crc32(text[:-1]):
        raise ValueError("torn or damaged")
    return json.loads(text)

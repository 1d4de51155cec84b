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
key: nobody deletes a segment above the snapshot's own number (pipeline/consumed.py), so everything
in the lines can be read again from the segments. For that reason they need no fsync.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from outpost_tools.collect.durable import Durable
from outpost_tools.common import segments

VERSION = 1
_SPARE_BYTES = 64 * 1024  # a small snapshot is not replaced at each seal
_DEVICES_AT_ONCE = 10_000  # while writing: bounds the memory
_DAMAGE = (LookupError, TypeError, ValueError, AttributeError)


class Saved:
    """The two files in a collector's directory. They hold the keys of the segments up to
    `sealed_through`; it is -1 when there are none."""

    def __init__(self, directory: Path, collector: str) -> None:
        self._snapshot = directory / "state.json"
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
                if state["version"] == VERSION:
                    durable = Durable.from_json(state, keep_news=keep_news)
                    self.sealed_through = int(state["sealed_through"])
                    self._load_changes(durable)
                    return durable
        if state:
            print(f"{self._snapshot}: not usable, reading all segments", file=sys.stderr)
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
        with temporary.open("w", encoding="utf-8") as file, _no_look_for_cycles():
            self._write(file, durable, sealed_through)
            file.flush()
            os.fsync(file.fileno())
            length = file.tell()
        temporary.rename(self._snapshot)
        segments.sync_directory(self._snapshot.parent)
        self._changes.unlink(missing_ok=True)
        self._room, self.sealed_through = length + _SPARE_BYTES, sealed_through
        durable.changed = set()

    def _write(self, file: IO[str], durable: Durable, sealed_through: int) -> None:
        head = {"version": VERSION, "collector": self._collector, "sealed_through": sealed_through}
        file.write(json.dumps(head)[:-1])
        parts = {"streams": durable.streams_json, "latest": durable.latest_json}
        for name, part in parts.items():
            file.write(f', "{name}": {{')
            separator = ""
            for devices in _portions(durable.all_devices()):
                text = json.dumps(part(devices))[1:-1]
                file.write(separator + text if text else "")
                separator = ", " if text or separator else ""
            file.write("}")
        file.write("}")

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
            state = json.loads(self._snapshot.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) else {}


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

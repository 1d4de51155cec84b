"""The packet identifiers of other people's messages, beside a log on disk: the file `foreign.ids`.

A batch's are appended before its frames are stored. So after a kill those of the last batch are in
doubt, and of these a start believes only what it finds in the log, with the same arrival: an
identifier whose frame is not there would lose a message. The file has no fsync of its own: after a
power cut there may be copies in the log.

    entry    identifier:2  hash of topic and payload:8  received_ms:u64, little endian
    a batch begins with an entry of zeros
"""

from __future__ import annotations

import contextlib
import hashlib
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from outpost_tools.log import segments
from outpost_tools.machine import files
from outpost_tools.servers.collect.batch import Entry

_HASH_BYTES = 8
_ENTRY = struct.Struct("<2s8sQ")
_BEGIN = bytes(_ENTRY.size)
_NO_ID = bytes(2)
_MOST_BYTES = 4 * 65_535 * _ENTRY.size  # of the file; MQTT has 65,535 identifiers
_DOUBT_BYTES = 8 << 20  # of the newest segments: a batch has half of it

_Packed = tuple[bytes, bytes, int]


def digest(topic: bytes, payload: bytes) -> bytes:
    """Of what a frame keeps of a message."""
    made = hashlib.blake2b(b"%d " % len(topic), digest_size=_HASH_BYTES)
    made.update(topic + payload[: segments.MAX_PAYLOAD_BYTES])
    return made.digest()


class IdentifierFile:
    def __init__(self, directory: Path) -> None:
        self._directory, self._path = directory, directory / "foreign.ids"
        self._stored: dict[bytes, bytes] = {}
        self._is_to_rewrite = False

    def announce(self, entries: Iterable[Entry]) -> None:
        """These are about to be stored, and all that were announced before are."""
        packed = [_ENTRY.pack(*one[1:]) for one in entries]
        if not packed:
            return
        with contextlib.suppress(OSError):  # then a restart may store copies
            if self._is_to_rewrite or self._is_long():
                with files.replaced(self._path) as new:
                    new.writelines(_ENTRY.pack(*one, 0) for one in self._stored.items())
                self._is_to_rewrite = False
            with self._path.open("ab", buffering=0) as file:
                file.write(_BEGIN + b"".join(packed))
                self._is_to_rewrite = file.tell() % _ENTRY.size != 0

    def _is_long(self) -> bool:
        return self._path.exists() and self._path.stat().st_size > _MOST_BYTES

    def stored(self, entries: Iterable[Entry]) -> None:
        """These are durable."""
        self._stored.update((one.packet_id, one.digest) for one in entries)

    def forget(self) -> None:
        self._stored.clear()
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def load(self) -> dict[bytes, bytes]:
        """{packet identifier: hash} of earlier runs."""
        try:
            data = self._path.read_bytes()
        except OSError:
            return {}
        entries = list(_ENTRY.iter_unpack(data[: len(data) // _ENTRY.size * _ENTRY.size]))
        begins = [at for at, one in enumerate(entries) if one[0] == _NO_ID]
        sure = entries[: begins[-1]] if begins else entries
        doubted = entries[begins[-1] + 1 :] if begins else []
        found = list(self._found(doubted))
        # what is not believed must not look sure later
        self._is_to_rewrite = len(data) % _ENTRY.size != 0 or found != doubted
        believed = [*sure, *found]
        self._stored = {one: hashed for one, hashed, _ in believed if one != _NO_ID}
        return dict(self._stored)

    def _found(self, entries: list[_Packed]) -> Iterator[_Packed]:
        """Those whose frames are in the newest segments. Equal ones are in the order of the log, so
        that of two of which one was stored, it is the first."""
        if not entries:
            return
        wanted = {(ms, hashed) for _, hashed, ms in entries}
        there: Counter[tuple[int, bytes]] = Counter()
        size = 0
        for path in reversed(segments.sealed_segments(self._directory)):
            for frame in segments.contents(path).frames():
                found = frame.received_ms, digest(frame.topic, frame.payload)
                there[found] += found in wanted
            size += path.stat().st_size
            if size > _DOUBT_BYTES:
                break
        for one in entries:
            there[one[2], one[1]] -= 1
            if there[one[2], one[1]] >= 0:
                yield one

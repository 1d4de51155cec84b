"""Durable log of received messages: append-only segments of CRC-framed messages.

A directory holds one collector's segments, numbered without gaps: `segment-000000000007.open`
grows, a sealed one is renamed to `.seg` and never changes again. Layout, all integers little
endian:

    file    magic "OUTSEG01", then frames
    frame   body_length:u32  crc32(body):u32  body
    body    received_ms:u64  flags:u8  original_length:u32  topic_length:u16  topic  payload

flags: bit 0 the PUBLISH had RETAIN set, bit 1 DUP, bit 2 the payload was cut to `MAX_PAYLOAD_BYTES`
(original_length is its true length). received_ms counts from 1970. Knows files only: no MQTT, no
message format.
"""

from __future__ import annotations

import os
import struct
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"OUTSEG01"
MAX_PAYLOAD_BYTES = 64 * 1024
FLAG_RETAIN = 1
FLAG_DUP = 2
FLAG_TRUNCATED = 4

_FRAME = struct.Struct("<II")
_BODY = struct.Struct("<QBIH")
HEADER = (  # the two above in one, as numpy.dtype() takes it
    ("body_length", "<u4"),
    ("crc", "<u4"),
    ("received_ms", "<u8"),
    ("flags", "u1"),
    ("original_length", "<u4"),
    ("topic_length", "<u2"),
)
_MAX_BODY_BYTES = _BODY.size + 65535 + MAX_PAYLOAD_BYTES


@dataclass(frozen=True, slots=True)
class Frame:
    """One received PUBLISH.

    `offset` is where its frame begins in the file, `end` where the next one begins.
    """

    received_ms: int
    flags: int
    original_length: int
    topic: bytes
    payload: bytes
    offset: int = 0
    end: int = 0

    @property
    def retained(self) -> bool:
        return bool(self.flags & FLAG_RETAIN)

    @property
    def truncated(self) -> bool:
        return bool(self.flags & FLAG_TRUNCATED)


def encode_frame(
    received_ms: int, topic: bytes, payload: bytes, *, retain: bool = False, dup: bool = False
) -> bytes:
    """One frame; a payload longer than MAX_PAYLOAD_BYTES is cut and flagged."""
    flags = (FLAG_RETAIN if retain else 0) | (FLAG_DUP if dup else 0)
    original_length = len(payload)
    if original_length > MAX_PAYLOAD_BYTES:
        flags |= FLAG_TRUNCATED
        payload = payload[:MAX_PAYLOAD_BYTES]
    body = _BODY.pack(received_ms, flags, original_length, len(topic)) + topic + payload
    return _FRAME.pack(len(body), zlib.crc32(body)) + body


def frame_ends(
    data: bytes, offset: int = len(MAGIC), *, most: int = sys.maxsize, most_bytes: int = sys.maxsize
) -> list[int]:
    """Where each valid frame from `offset` on ends, which is where the next one begins; stops at
    the first torn or damaged one.

    At most `most` frames, and none that begins after `most_bytes`. The cheap form of scan():
    nothing is copied.
    """
    view, unpack, crc32, size, full_at = (
        memoryview(data),
        _FRAME.unpack_from,
        zlib.crc32,
        len(data),
        offset + most_bytes,
    )
    ends = []
    while offset + _FRAME.size <= size and offset < full_at and len(ends) < most:
        length, crc = unpack(data, offset)
        begin = offset + _FRAME.size
        offset = begin + length
        if (
            not _BODY.size <= length <= _MAX_BODY_BYTES
            or offset > size
            or crc32(view[begin:offset]) != crc
        ):
            break
        ends.append(offset)
    return ends


def scan(data: bytes, offset: int = len(MAGIC)) -> Iterator[Frame]:
    """The valid frames of a segment's bytes from `offset`; stops at the first torn or damaged
    one."""
    for end in frame_ends(data, offset):
        yield frame(data, offset, end)
        offset = end


def frame(data: bytes, begin: int, end: int) -> Frame:
    """The valid frame data[begin:end]."""
    received_ms, flags, original_length, topic_length = _BODY.unpack_from(data, begin + _FRAME.size)
    topic_at = begin + _FRAME.size + _BODY.size
    payload_at = min(topic_at + topic_length, end)
    return Frame(
        received_ms,
        flags,
        original_length,
        data[topic_at:payload_at],
        data[payload_at:end],
        begin,
        end,
    )


def read_segment(path: Path) -> Iterator[Frame]:
    """The frames of one segment file. Raises ValueError when the file is no segment."""
    data = path.read_bytes()
    if data[: len(MAGIC)] != MAGIC:
        raise ValueError(f"{path}: not a segment (wrong magic); remove it from the log directory")
    return scan(data)


def segment_number(path: Path) -> int:
    """7 for `segment-000000000007.seg`."""
    return int(path.stem.split("-")[1])


def sealed_segments(directory: Path) -> list[Path]:
    """The sealed segments in order of their numbers."""
    return sorted(directory.glob("segment-*.seg"))


def open_segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("segment-*.open"))


def sync_directory(directory: Path) -> None:
    """Make renames and new names in it durable."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class SegmentWriter:
    """Appends frames; `commit()` makes them durable; `seal()` closes the segment for readers."""

    def __init__(self, directory: Path, *, max_bytes: int = 16 << 20) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.max_bytes = max_bytes
        self._recover()
        known = sealed_segments(directory)
        self._number = segment_number(known[-1]) + 1 if known else 0
        self._file = None
        self._length = 0

    def _recover(self) -> None:
        """Cut the torn tail of what a killed collector left open, and seal it (an empty one goes
        away)."""
        for path in open_segments(self.directory):
            data = path.read_bytes()
            end = len(MAGIC)
            for frame in scan(data) if data[: len(MAGIC)] == MAGIC else ():
                end = frame.end
            if end == len(MAGIC):
                path.unlink()
                continue
            with path.open("r+b") as file:
                file.truncate(end)
                os.fsync(file.fileno())
            path.rename(path.with_suffix(".seg"))
        sync_directory(self.directory)

    def append(self, frame: bytes) -> None:
        """Write one encoded frame; not durable before commit()."""
        if self._file is None:
            # never over what is there
            self._file = (self.directory / f"segment-{self._number:012d}.open").open("xb")
            self._file.write(MAGIC)
            self._length = len(MAGIC)
            self._new = True
        self._file.write(frame)
        self._length += len(frame)

    def commit(self) -> None:
        """fsync what was appended; seal when the segment has reached its size.

        Raises OSError (disk full).
        """
        if self._file is None:
            return
        self._file.flush()
        os.fsync(self._file.fileno())
        if self._new:
            sync_directory(self.directory)
            self._new = False
        if self._length >= self.max_bytes:
            self.seal()

    def seal(self) -> Path | None:
        """Close the open segment and rename it; None when nothing is open."""
        if self._file is None:
            return None
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._file = None
        path = self.directory / f"segment-{self._number:012d}.open"
        sealed = path.with_suffix(".seg")
        path.rename(sealed)
        sync_directory(self.directory)
        self._number += 1
        return sealed

"""Releases a message that is set aside in an image: PATH ALIGN INDEX CRC. A separate process, in
which the firmware can be imported (`source_tree.firmware_environment`).

When the message is not there, or the outbox refuses the change, it prints the reason as its last
line and exits with status 1.
"""

from __future__ import annotations

import sys
import zlib
from pathlib import Path
from typing import Any

BLOCK_BYTES = 4096
PAGE_BYTES = 256
RECORD_BYTES = 1024  # the longest record that the station writes, that of a series


class ImageFile:
    """A block device over an image file. Programming only clears bits, as in NOR flash."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("r+b")
        self._blocks = path.stat().st_size // BLOCK_BYTES

    def readblocks(self, block: int, buf: bytearray | memoryview, offset: int = 0) -> None:
        self._file.seek(block * BLOCK_BYTES + offset)
        buf[:] = self._file.read(len(buf))

    def writeblocks(self, block: int, buf: bytes | memoryview, offset: int = 0) -> None:
        before = bytearray(len(buf))
        self.readblocks(block, before, offset)
        self._write(block, offset, bytes(a & b for a, b in zip(before, buf, strict=True)))

    def ioctl(self, operation: int, argument: int) -> int:
        if operation == 6:
            self._write(argument, 0, b"\xff" * BLOCK_BYTES)
        return {4: self._blocks, 5: BLOCK_BYTES}.get(operation, 0)

    def _write(self, block: int, offset: int, data: bytes) -> None:
        self._file.seek(block * BLOCK_BYTES + offset)
        self._file.write(data)
        self._file.flush()


def mounted(path: Path, align: int) -> tuple[Any, int]:
    """(outbox, status of its mount). Only an image that contains series is opened with series,
    because firmware without series refuses what such an outbox writes."""
    from outpost.outbox import Outbox
    from outpost.series_outbox import over
    from outpost.status import NEWER

    for kind in (Outbox, over(Outbox)):
        outbox = kind(ImageFile(path), RECORD_BYTES, align, max(PAGE_BYTES, align))
        status = outbox.mount()
        if status != NEWER:
            break
    return outbox, status


def release(path: Path, align: int, index: int, crc: int) -> str:
    """The reason why it failed; empty: it worked."""
    outbox, status = mounted(path, align)
    if status:
        return f"the outbox cannot be mounted, status {status}"
    shelf = outbox.shelf()
    at = outbox.topic_at if shelf.load(index) == 0 else -1
    end = outbox.topic_at + outbox.topic_length + outbox.payload_length
    if at < 0 or zlib.crc32(bytes(outbox.buffer[at:end])) != crc:
        return "another message is there now"
    status = shelf.release(index)
    return f"status {status}" if status else ""


if __name__ == "__main__":
    path, *numbers = sys.argv[1:]
    sys.exit(release(Path(path), *map(int, numbers)) or 0)

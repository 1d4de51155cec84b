"""Reads the board's outbox from outside: its pinned blocks, from a flash image, in ring order.

Uses the tools' own reader of outbox images. Knows the map of `boards/support/pinned.py`.
"""

from __future__ import annotations

import struct

from outpost_tools.boards.outbox.image import Image, read_image
from rp2040 import littlefs
from rp2040.flash import SECTOR_BYTES

MAP = "/outbox/map"
_HEAD_BYTES, _ENTRY = 16, struct.Struct("<HII")


def blocks(flash: bytes) -> list[int]:
    """Numbers of the pinned blocks on the device under the file system; they never change."""
    data = littlefs.read(flash)[MAP]
    count = (len(data) - 4 - _HEAD_BYTES) // _ENTRY.size
    return [_ENTRY.unpack_from(data, _HEAD_BYTES + n * _ENTRY.size)[1] for n in range(count)]


def read(flash: bytes, pinned: list[int]) -> Image:
    """pinned: what blocks() returned for this board."""
    begin = littlefs.start_of(flash)
    at = [begin + number * SECTOR_BYTES for number in pinned]
    return read_image(b"".join(flash[start : start + SECTOR_BYTES] for start in at))

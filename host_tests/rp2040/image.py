"""Finds the interpreter's image (MicroPython for RPI_PICO) and reads .bin and .uf2."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from outpost_tools.errors import ToolError

FLASH_START = 0x10000000
_UF2_MAGIC = 0x0A324655
HINT = "run `python3 tools/setup.py --rp2` (a few minutes, once), or name one in RP2_IMAGE"


def from_uf2(data: bytes) -> bytes:
    """The flash from its first byte on, gaps erased."""
    flash = bytearray()
    for at in range(0, len(data), 512):
        magic, _, _, address, length = struct.unpack_from("<5I", data, at)
        if magic != _UF2_MAGIC:
            raise ToolError("not a UF2 file")
        offset = address - FLASH_START
        flash.extend(b"\xff" * (offset + length - len(flash)))
        flash[offset : offset + length] = data[at + 32 : at + 32 + length]
    return bytes(flash)


def find() -> Path | None:
    named = os.environ.get("RP2_IMAGE")
    return Path(named) if named else None


def load(path: Path | None = None) -> bytes:
    """The flash image of the interpreter. Raises ToolError that says how to get one."""
    path = path or find()
    if path is None or not path.exists():
        raise ToolError(f"no MicroPython for the RP2040{f' at {path}' if path else ''}: {HINT}")
    data = path.read_bytes()
    return from_uf2(data) if data[:4] == struct.pack("<I", _UF2_MAGIC) else data

"""Finds the interpreter's image (MicroPython for RPI_PICO) and reads .bin and .uf2."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import rp2_image
from outpost_tools.errors import ToolError

FLASH_START = 0x10000000
_UF2_MAGIC = 0x0A324655
_SYMBOL_TABLE = 2
HINT = "run `python3 tools/setup.py --rp2` (a few minutes, once), or name one in RP2_IMAGE"


def from_uf2(data: bytes) -> bytes:
    """Returns the flash from its first byte on, with gaps erased."""
    flash = bytearray()
    for at in range(0, len(data), 512):
        magic, _, _, address, length = struct.unpack_from("<5I", data, at)
        if magic != _UF2_MAGIC:
            raise ToolError("not a UF2 file")
        offset = address - FLASH_START
        flash.extend(b"\xff" * (offset + length - len(flash)))
        flash[offset : offset + length] = data[at + 32 : at + 32 + length]
    return bytes(flash)


def find(name: str = "pico") -> Path | None:
    """Returns the image's .uf2: the one that RP2_IMAGE names, else the cache's build of that
    name."""
    named = os.environ.get("RP2_IMAGE")
    folder = None if named else rp2_image.find(name)
    return Path(named) if named else folder and folder / "firmware.uf2"


def symbol(image: Path, name: str) -> int:
    """Returns the address of a function, from the .elf beside the image. Raises ToolError."""
    data = image.with_suffix(".elf").read_bytes()
    (sections_at,) = struct.unpack_from("<I", data, 0x20)
    size, count = struct.unpack_from("<HH", data, 0x2E)
    sections = [struct.unpack_from("<10I", data, sections_at + n * size) for n in range(count)]
    for section in sections:
        if section[1] != _SYMBOL_TABLE:
            continue
        names_at = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 16):
            name_at, value = struct.unpack_from("<II", data, at)
            start = names_at + name_at
            if data[start : data.index(b"\0", start)] == name.encode():
                return value & ~1
    raise ToolError(f"{image.with_suffix('.elf')}: no symbol {name}")


def load(path: Path | None = None) -> bytes:
    """Returns the interpreter's flash image. Raises ToolError, which says how to get one."""
    path = path or find()
    if path is None or not path.exists():
        raise ToolError(f"no MicroPython for the RP2040{f' at {path}' if path else ''}: {HINT}")
    data = path.read_bytes()
    return from_uf2(data) if data[:4] == struct.pack("<I", _UF2_MAGIC) else data

"""The board's file system as a part of the flash image: created with files in it, and read back
whole.

Uses the unix MicroPython, whose littlefs is the port's. Knows where the interpreters keep the file
system: at the end of 2 MB, 1,408 KB for RPI_PICO, 848 KB with the network of a Pico W, as on one.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.machine.interpreters import find_micropython
from rp2040.flash import FLASH_BYTES, SECTOR_BYTES

BYTES, PICO_W_BYTES = 1408 * 1024, 848 * 1024
OFFSET = FLASH_BYTES - BYTES
BLOCKS = BYTES // SECTOR_BYTES
_PICO_W = b"Raspberry Pi Pico with PPP"  # tools/rp2_recipe/RPI_PICO_PPP
_TOOL = Path(__file__).with_name("littlefs_tool.py")


class Damaged(Exception):
    """The file system cannot be mounted, or a file of it cannot be read."""


def start_of(flash: bytes) -> int:
    """Returns where the file system begins, from the interpreter at the start of the flash."""
    return FLASH_BYTES - (PICO_W_BYTES if flash.find(_PICO_W, 0, OFFSET) >= 0 else BYTES)


def _run(job: str, image: Path, manifest: Path) -> subprocess.CompletedProcess:
    command = find_micropython("amd64")
    if command is None:
        raise ToolError("MicroPython is missing; run `make setup`")
    return subprocess.run(
        [*command, "-X", "heapsize=32M", str(_TOOL), job, str(image), str(manifest)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def make(files: dict[str, bytes], size: int = BYTES) -> bytes:
    """Returns a file system of that many bytes. files: path on the board -> contents."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        entries = []
        for number, (path, data) in enumerate(sorted(files.items())):
            source = folder / str(number)
            source.write_bytes(data)
            entries.append([path, str(source)])
        image, manifest = folder / "image", folder / "manifest"
        image.write_bytes(bytes(size))
        manifest.write_text(json.dumps(entries))
        done = _run("make", image, manifest)
        if done.returncode:
            raise ToolError(f"littlefs: the image cannot be made:\n{done.stderr or done.stdout}")
        return image.read_bytes()


def read(image: bytes) -> dict[str, bytes]:
    """Returns every file of the file system in a flash image, or of a bare file system. Raises
    Damaged."""
    with tempfile.TemporaryDirectory() as name:
        path, manifest = Path(name) / "image", Path(name) / "manifest"
        path.write_bytes(image[start_of(image) :] if len(image) == FLASH_BYTES else image)
        manifest.write_text("[]")
        done = _run("read", path, manifest)
        if done.returncode:
            raise Damaged((done.stderr or done.stdout).strip())
        return {
            entry: Path(source).read_bytes() for entry, source in json.loads(manifest.read_text())
        }


def with_files(firmware: bytes, files: dict[str, bytes]) -> bytes:
    """Returns a flash image: the interpreter at its start, a file system with these files at its
    end."""
    start = start_of(firmware)
    if len(firmware) > start:
        raise ToolError(
            f"the interpreter has {len(firmware)} bytes; the file system begins at {start}"
        )
    return firmware.ljust(start, b"\xff") + make(files, FLASH_BYTES - start)

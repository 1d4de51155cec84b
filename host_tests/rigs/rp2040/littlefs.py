"""The board's file system as a part of the flash image: created with files in it, and read back
whole.

Uses the unix MicroPython, whose littlefs is the port's. Knows where the RPI_PICO build keeps the
file system: in the upper 1,408 KB of 2 MB.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from outpost_tools.common.errors import ToolError
from outpost_tools.common.interpreters import find_micropython
from rp2040.flash import FLASH_BYTES, SECTOR_BYTES

BYTES = 1408 * 1024
OFFSET = FLASH_BYTES - BYTES
BLOCKS = BYTES // SECTOR_BYTES
_TOOL = Path(__file__).with_name("littlefs_tool.py")


class Damaged(Exception):
    """The file system cannot be mounted, or a file of it cannot be read."""


def _run(job: str, image: Path, manifest: Path) -> subprocess.CompletedProcess:
    command = find_micropython("amd64")
    if command is None:
        raise ToolError("MicroPython is missing; run `make setup`")
    return subprocess.run(
        [*command, "-X", "heapsize=32M", str(_TOOL), job, str(image), str(manifest)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def make(files: dict[str, bytes]) -> bytes:
    """Returns the file system's BYTES. files: path on the board -> contents."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        entries = []
        for number, (path, data) in enumerate(sorted(files.items())):
            source = folder / str(number)
            source.write_bytes(data)
            entries.append([path, str(source)])
        image, manifest = folder / "image", folder / "manifest"
        image.write_bytes(bytes(BYTES))
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
        path.write_bytes(image[-BYTES:])
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
    if len(firmware) > OFFSET:
        raise ToolError(
            f"the interpreter has {len(firmware)} bytes; the file system begins at {OFFSET}"
        )
    return firmware.ljust(OFFSET, b"\xff") + make(files)

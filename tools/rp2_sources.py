"""The sources of MicroPython's RP2 port and of the libraries it is built with, from Debian's
packages.

They are next to each other in one folder of the cache: `micropython`, `pico-sdk`, `tinyusb`,
`mbedtls`, `lwip`, with links where the port expects its submodules. This module also makes the
changes that they need, with the reason for each; it starts no compiler.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from outpost_tools.trying.fetch.cache_rules import drop_unused, say, whole
from outpost_tools.trying.fetch.debian_packages import (
    PrivateApt,
    Unobtainable,
    unpack_packages,
    unpack_source,
)
from outpost_tools.trying.fetch.program import SUITE

SOURCES = ("micropython", "mbedtls", "lwip")
# packages that contain a source tree
TREES = {
    "pico-sdk-source": "pico-sdk",
    "tinyusb-source": "tinyusb",
}
_RECIPE = "3"  # change it with anything that is fetched, linked or changed here
_SUBMODULES = ("pico-sdk", "tinyusb", "mbedtls", "lwip")


def folder(cache: Path) -> Path:
    return cache / f"rp2-sources-{SUITE}-{_RECIPE}"


def ensure(cache: Path, apt: Callable[[], PrivateApt]) -> Path:
    """The folder with the sources; fetched if the cache lacks it. Raises Unobtainable.

    The caller holds the cache's lock. apt: called only if something must be fetched.
    """
    place = folder(cache)
    if place.is_dir():
        drop_unused(place, "rp2-sources-*")
        return place
    say(f"fetching the sources of {', '.join((*SOURCES, *TREES.values()))} from Debian's archive")
    with whole(place) as work:
        fetched = [*_fetch_sources(work, apt()), *_fetch_trees(work, apt())]
        _link_submodules(work)
        _change(work)
        (work / "packages.txt").write_text("".join(f"{path.name}\n" for path, _ in fetched))
    say(f"sources: {sum(size for _, size in fetched) / 1e6:.1f} MB downloaded and unpacked")
    return place


def _fetch_sources(work: Path, apt: PrivateApt) -> list[tuple[Path, int]]:
    """Returns the names of the downloaded files with their sizes; the files are not kept."""
    fetched = []
    for name in SOURCES:
        with tempfile.TemporaryDirectory(dir=work) as temporary:
            files = apt.fetch_source(name, Path(temporary))
            unpack_source(files, Path(temporary) / "unpacked").rename(work / name)
            fetched += [(path, path.stat().st_size) for path in files]
    return fetched


def _fetch_trees(work: Path, apt: PrivateApt) -> list[tuple[Path, int]]:
    fetched = []
    for package, tree in TREES.items():
        with tempfile.TemporaryDirectory(dir=work) as temporary:
            # Without dependencies: the SDK's package depends on a C++ library of 313 MB that the
            # port does not need.
            path = apt.fetch_alone(package, Path(temporary))
            unpack_packages([path], Path(temporary) / "root")
            (Path(temporary) / "root" / "usr" / "src" / tree).rename(work / tree)
            fetched.append((path, path.stat().st_size))
    return fetched


def _link_submodules(work: Path) -> None:
    library = work / "micropython" / "lib"
    for name in _SUBMODULES:
        (library / name).rmdir()  # empty in Debian's package
        (library / name).symlink_to(f"../../{name}")
    (library / "micropython-lib" / "README.md").touch()  # the build expects it


def _change(work: Path) -> None:
    """Makes our changes to the upstream sources, each with its reason.

    Raises Unobtainable if one does not fit.
    """
    # The SDK's only C++ file (operators new and delete). Without it nothing needs libstdc++.
    options = work / "pico-sdk" / "src" / "rp2_common" / "pico_cxx_options" / "CMakeLists.txt"
    _replace(options, "${CMAKE_CURRENT_LIST_DIR}/new_delete.cpp", "", 1)
    # PPP copies each frame into a buffer of 900 bytes from lwIP's heap of 8,000. The Pico W's Wi-Fi
    # driver does not: it has a buffer of its own. With PPP's buffers from the pool of received
    # packets, the heap is as full as on a Pico W that sends the same data.
    ppp = work / "lwip" / "src" / "netif" / "ppp" / "pppos.c"
    _replace(ppp, "PBUF_POOL_BUFSIZE, PBUF_RAM)", "PBUF_POOL_BUFSIZE, PBUF_POOL)", 2)
    # Frozen machine code for ARMv6-M reads its constants at multiples of four from its own start.
    # Aligned to two, half of it reads wrong constants, and an outbox computes wrong check
    # values (MicroPython 1.25).
    freezer = work / "micropython" / "tools" / "mpy-tool.py"
    _replace(freezer, '__attribute__ ((aligned (2)))"', '__attribute__ ((aligned (4)))"', 1)


def _replace(path: Path, old: str, new: str, count: int) -> None:
    text = path.read_text()
    if text.count(old) != count:
        raise Unobtainable(
            f"{path.name} has changed: it contains {old!r} {text.count(old)} times, not {count}"
        )
    path.write_text(text.replace(old, new))

"""The source of MicroPython's RP2 port with the libraries that it is built from, out of Debian's
packages.

They lie side by side in one folder of the cache: `micropython`, `pico-sdk`, `tinyusb`, `mbedtls`,
`lwip`, linked where the port expects its submodules. Knows what must be changed in them, and why;
starts no compiler.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from outpost_tools.fetch.cache_rules import drop_unused, say, whole
from outpost_tools.fetch.debian_packages import (
    SUITE,
    PrivateApt,
    Unobtainable,
    unpack_packages,
    unpack_source,
)

SOURCES = ("micropython", "mbedtls", "lwip")
# packages that hold a source tree
TREES = {
    "pico-sdk-source": "pico-sdk",
    "tinyusb-source": "tinyusb",
}
_RECIPE = "3"  # change it when what is fetched, linked or changed here changes
_SUBMODULES = ("pico-sdk", "tinyusb", "mbedtls", "lwip")


def folder(cache: Path) -> Path:
    return cache / f"rp2-sources-{SUITE}-{_RECIPE}"


def ensure(cache: Path, apt: Callable[[], PrivateApt]) -> Path:
    """The folder with the sources; fetched where the cache has none. Raises Unobtainable.

    The caller holds the cache's lock. apt: is called only where something must be fetched.
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
    """Returns the downloaded files with their sizes; the files themselves do not stay."""
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
            # Alone: the SDK's package depends on a C++ library of 313 MB that the port does not
            # need.
            path = apt.fetch_alone(package, Path(temporary))
            unpack_packages([path], Path(temporary) / "root")
            (Path(temporary) / "root" / "usr" / "src" / tree).rename(work / tree)
            fetched.append((path, path.stat().st_size))
    return fetched


def _link_submodules(work: Path) -> None:
    library = work / "micropython" / "lib"
    for name in _SUBMODULES:
        (library / name).rmdir()  # Debian left it empty
        (library / name).symlink_to(f"../../{name}")
    (library / "micropython-lib" / "README.md").touch()  # the build asks for it


def _change(work: Path) -> None:
    """The changes to other people's source, each with its reason.

    Raises Unobtainable where one does not fit.
    """
    # The SDK's only C++ file (operators new and delete): without it nothing needs libstdc++.
    options = work / "pico-sdk" / "src" / "rp2_common" / "pico_cxx_options" / "CMakeLists.txt"
    _replace(options, "${CMAKE_CURRENT_LIST_DIR}/new_delete.cpp", "", 1)
    # PPP copies each frame into a buffer of 900 bytes from lwIP's heap of 8,000, which the Pico W's
    # Wi-Fi driver does not: it has a buffer of its own. From the pool of received packets instead,
    # the heap is as full as on a Pico W when the same is sent.
    ppp = work / "lwip" / "src" / "netif" / "ppp" / "pppos.c"
    _replace(ppp, "PBUF_POOL_BUFSIZE, PBUF_RAM)", "PBUF_POOL_BUFSIZE, PBUF_POOL)", 2)
    # Frozen machine code for ARMv6-M reads its constants at multiples of four from its own start:
    # aligned to two, half of it reads others, and an outbox computes wrong checks (MicroPython
    # 1.25).
    freezer = work / "micropython" / "tools" / "mpy-tool.py"
    _replace(freezer, '__attribute__ ((aligned (2)))"', '__attribute__ ((aligned (4)))"', 1)


def _replace(path: Path, old: str, new: str, count: int) -> None:
    text = path.read_text()
    if text.count(old) != count:
        raise Unobtainable(
            f"{path.name} has changed: {old!r} stands there {text.count(old)} times, not {count}"
        )
    path.write_text(text.replace(old, new))

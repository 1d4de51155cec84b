"""What `outpost flash` puts on a board of a kind: the firmware compiled for its processor, its own modules, main.py."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from outpost_tools.device.kinds import Kind
from outpost_tools.device.plan import MAIN, digest
from outpost_tools.firmware_build import output

_FORM = "compact"


def build(root: Path, kind: Kind, architecture: str) -> dict[str, bytes]:
    """path on the board -> bytes. Raises ToolError."""
    firmware = output.read(root / "firmware")
    modules = [*firmware.compact.sources]
    with ThreadPoolExecutor() as pool:  # each is a process of its own, mpy-cross
        parts = pool.map(lambda module: output.build(firmware, architecture, _FORM, [module]), modules)
        files = {path: data for part in parts for path, data in part.items()}
    files |= output.board_files(root, str(kind.folder), architecture, _FORM)
    return {f"/{path}": data for path, data in files.items()}


def sources(root: Path, kind: Kind) -> dict[str, set[str]]:
    """Hashes of what somebody may have copied by hand from here: ours, too."""
    paths = [root / "firmware" / "main.py", *sorted(kind.folder.glob("*.py"))]
    return {f"/{path.name}": {digest(path.read_bytes())} for path in paths}


def to_look_at(wanted: Iterable[str]) -> list[str]:
    """The paths in the root that decide what has to be done: the files, as they arrive, and what would hide them."""
    found = {MAIN}
    for path in wanted:
        if path.count("/") == 1:
            found |= {path, path.removesuffix(".mpy") + ".py"}
    return sorted(found)

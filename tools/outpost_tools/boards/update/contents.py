"""The files that a board of one kind should have: those that `outpost flash` copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from outpost_tools.boards.files import payload
from outpost_tools.boards.port import kinds
from outpost_tools.boards.settings import sensor_drivers
from outpost_tools.boards.settings.settings_file import Settings
from outpost_tools.boards.update.image import Content
from outpost_tools.errors import ToolError


def architecture_of(device: str, mpy: int) -> str:
    """Return mpy-cross's name for the architecture that a board reports. Raises ToolError."""
    facts = kinds.Facts("micropython", (), "", mpy, "")
    if not facts.architecture or facts.mpy_version != kinds.MPY_VERSION:
        found = ".".join(map(str, facts.mpy_version))
        raise ToolError(
            f"{device}: takes .mpy files {found} {facts.architecture or 'without machine code'}, "
            f"this Outpost makes {'.'.join(map(str, kinds.MPY_VERSION))}: update its MicroPython "
            "by cable, then `outpost flash`"
        )
    return facts.architecture


def collect(
    root: Path, kind: kinds.Kind, architecture: str, settings: Settings, *, is_flat: bool = False
) -> list[Content]:
    """Return the files that the settings need. Optional files are those that a board may use
    although these settings do not need them: modules for series that are still in the outbox, and
    drivers. The update removes all other modules of Outpost. is_flat: for a board that accepts no
    folders inside the library. Raises ToolError."""
    programs = [driver.source for driver in settings.drivers.values()]

    def built(full: dict[str, Any]) -> dict[str, bytes]:
        return payload.build(root, kind, architecture, full, programs, is_flat=is_flat)

    needed = built(settings.full) | sensor_drivers.files(settings.drivers, architecture)
    optional = built(settings.full | {"series": True})
    for name in sensor_drivers.names():
        driver = sensor_drivers.find(name, None)
        optional |= sensor_drivers.files({name: driver}, architecture)
    found = [Content(path.lstrip("/"), data) for path, data in needed.items()]
    return found + [
        Content(path.lstrip("/"), data, is_optional=True)
        for path, data in optional.items()
        if path not in needed
    ]

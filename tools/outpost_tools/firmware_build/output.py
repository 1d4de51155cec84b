"""Reads the firmware's sources, compiles them in one of three forms, writes the folder and the table."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.firmware_build import legend, mpy, public
from outpost_tools.firmware_build.compact import Compact, compact

PACKAGE = "outpost"
_NOT_FOR_THE_BOARD = {"manifest.py", "main.py"}


@dataclass(frozen=True)
class Firmware:
    """sources by module; public: what keeps its name."""

    sources: dict[str, str]
    public: public.PublicNames

    @cached_property
    def compact(self) -> Compact:
        return compact(self.sources, self.public, PACKAGE)

    @property
    def unknown(self) -> list[str]:
        return self.compact.unknown

    def parts(self, host: str) -> list[str]:
        """The modules that come into the host's file in a compact build."""
        return [part for part in self.public.merged.get(host, ()) if part in self.sources]

    def mpy(self, module: str, architecture: str, form: str) -> bytes:
        """form: "compact", "plain" or "debug". Raises ToolError."""
        if form == "compact":
            source, title = self.compact.sources[module], self.compact.titles[module]
            return mpy.compiled(source, title, architecture, module=f"{module}.py")
        optimize = 0 if form == "debug" else 3
        return mpy.compiled(self.sources[module], f"{PACKAGE}/{module}.py", architecture, optimize, module=f"{module}.py")


def read(folder: Path) -> Firmware:
    """Raises ToolError."""
    paths = sorted((folder / PACKAGE).glob("*.py"))
    if not paths:
        raise ToolError(f"{folder / PACKAGE}: no modules; give the folder that holds {PACKAGE}/ with --source")
    sources = {path.stem: path.read_text(encoding="utf-8") for path in paths}
    return Firmware(sources, public.load(folder / public.FILE_NAME))


def build(firmware: Firmware, architecture: str, form: str, modules: Iterable[str] = ()) -> dict[str, bytes]:
    """The files, by path; of some modules, or of all."""
    chosen = [*modules] or [*(firmware.compact.sources if form == "compact" else firmware.sources)]
    return {f"{PACKAGE}/{module}.mpy": firmware.mpy(module, architecture, form) for module in chosen}


def board_files(root: Path, board: str, architecture: str, form: str) -> dict[str, bytes]:
    """main.py as it is (an interpreter starts that name only), the board's modules compiled, with their own names."""
    folder = root / "boards" / board
    if not (folder / "board.py").is_file():
        known = sorted(path.parent.name for path in (root / "boards").glob("*/board.py"))
        raise ToolError(f"boards/{board}/board.py: not there; boards: {', '.join(known)}")
    files = {"main.py": (root / "firmware" / "main.py").read_bytes()}
    optimize = 0 if form == "debug" else 3
    for path in sorted(folder.glob("*.py")):
        if path.name not in _NOT_FOR_THE_BOARD:
            source = path.read_text(encoding="utf-8")
            files[f"{path.stem}.mpy"] = mpy.compiled(source, path.name, architecture, optimize, module=path.name)
    return files


def write(folder: Path, files: dict[str, bytes], firmware: Firmware, form: str) -> None:
    """In place of what an earlier build left in the package's folder. Raises ToolError."""
    try:
        shutil.rmtree(folder / PACKAGE, ignore_errors=True)
        (folder / legend.FILE_NAME).unlink(missing_ok=True)
        for name, data in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        if form == "compact":
            (folder / legend.FILE_NAME).write_text(legend.text(firmware.compact.entries), encoding="utf-8")
    except OSError as error:
        raise ToolError(f"{folder}: cannot write the build: {error.strerror}") from None


def table(firmware: Firmware, architecture: str) -> str:
    """Bytes of each file: source, .mpy with the names of the source, .mpy compact; and the sums."""
    rows = []
    for host in firmware.compact.sources:
        modules = [*firmware.parts(host), host]
        source = sum(len(firmware.sources[module].encode()) for module in modules)
        plain = sum(len(firmware.mpy(module, architecture, "plain")) for module in modules)
        title = f"{host} (+ {' '.join(modules[:-1])})" if modules[1:] else host
        rows.append((title, source, plain, len(firmware.mpy(host, architecture, "compact"))))
    rows.append(("all", *(sum(column) for column in list(zip(*rows, strict=True))[1:])))
    lines = [f"{architecture:<40}{'source':>10}{'.mpy plain':>12}{'.mpy compact':>14}"]
    lines += [f"{name:<40}{source:>10}{plain:>12}{short:>14}" for name, source, plain, short in rows]
    return "\n".join(lines)

"""Reads files of sources: a person's, and the ready ones of this package."""

from __future__ import annotations

from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.readings.sources import file
from outpost_tools.readings.sources.mapping import Mapping

_FOLDER = Path(__file__).parent / "ready"
_LARGEST_BYTES = 1 << 20


def load(path: Path) -> Mapping:
    """Raises ToolError."""
    return file.parse(read(path), str(path))


def read(path: Path) -> str:
    """The text of a person's file. Raises ToolError."""
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise ToolError(f"{path}: larger than 1 MiB; is it a file of sources?")
        return path.read_text(encoding="utf-8-sig")  # Windows' editors add a mark
    except UnicodeDecodeError:
        raise ToolError(f"{path}: not UTF-8; save it as UTF-8") from None
    except OSError as error:
        raise ToolError(
            f"{path}: cannot be read: {error.strerror}; `outpost sources ready` prints files to "
            "start from"
        ) from None


def names() -> list[str]:
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def text(name: str) -> str:
    """Raises ToolError."""
    if name not in names():
        raise ToolError(f"no ready file {name!r}; there are {', '.join(names())}")
    return (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")


def ready(name: str) -> Mapping:
    return file.parse(text(name), f"ready/{name}.toml")

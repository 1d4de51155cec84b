"""Small files that are complete, or as before: after a kill, on a full disk, after a power cut."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """Replaces the contents durably. Raises OSError; the old contents then stay."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Makes renames and new names in it durable."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

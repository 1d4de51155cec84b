"""Files that are complete, or as before: after a kill, on a full disk, after a power cut."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def replaced(path: Path, *, is_private: bool = False) -> Iterator[BinaryIO]:
    """What is written to it takes the file's place at the end, durably. Until then, and after an
    error, the one that was there stays. A link stays, and what it leads to is replaced; a pipe or a
    device, which root could replace by a file as well, is written to. is_private: only its owner
    may read the new one. Raises OSError."""
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        opener = partial(os.open, mode=0o600 if is_private else 0o666)
        with open(temporary, "wb", opener=opener) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists() and not is_private:
            shutil.copymode(path, temporary)
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    sync_directory(path.parent)


def replace_text(path: Path, text: str, *, is_private: bool = False) -> None:
    """It says this, durably. Raises OSError: then it says what it did."""
    with replaced(path, is_private=is_private) as file:
        file.write(text.encode())


def sync_directory(directory: Path) -> None:
    """Makes renames and new names in it durable."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def operand(path: Path) -> str:
    """The path as a word of a command line that no option begins with."""
    return f"./{path}" if str(path).startswith("-") else str(path)

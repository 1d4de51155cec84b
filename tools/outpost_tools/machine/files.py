"""Replaces files atomically: after a kill, on a full disk or after a power cut, a file is either
complete or as before.
"""

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
    """Yields a new file, which durably replaces the one at `path` at the end. Until then, and after
    an error, the old file stays. If `path` is a link, its target is replaced, and the link stays. A
    pipe or a device is written to directly, because root could replace it by a file. is_private:
    only its owner may read the new file. Raises OSError."""
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
    """Durably replaces the file's contents. If it raises OSError, the file is unchanged."""
    with replaced(path, is_private=is_private) as file:
        file.write(text.encode())


def sync_directory(directory: Path) -> None:
    """Makes renames and new names in the directory durable. Raises OSError."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def operand(path: Path) -> str:
    """The path as a word of a command line that cannot be taken for an option."""
    return f"./{path}" if str(path).startswith("-") else str(path)

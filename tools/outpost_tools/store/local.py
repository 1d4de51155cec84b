"""A folder of this machine. What is durable has been synced to the disk, with the names in its
folders; a power cut leaves a file whole or absent."""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outpost_tools.store.base import Entry, Store


@dataclass(frozen=True)
class LocalStore(Store):
    """`path`: the folder, which need not exist until something is stored."""

    path: Path

    @property
    def uri(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def is_local(self) -> bool:
        return True

    @property
    def absolute(self) -> str:
        return str(self.path.resolve())

    def is_there(self) -> bool:
        return self.path.is_dir()

    def __truediv__(self, name: str) -> LocalStore:
        return LocalStore(self.path / name)

    def get(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def size(self, name: str) -> int:
        return (self.path / name).stat().st_size

    def exists(self, name: str) -> bool:
        return (self.path / name).is_file()

    def put(self, name: str, data: bytes) -> None:
        path = self.path / name
        temporary = _temporary(path, data)
        temporary.replace(path)
        sync_path(path.parent)

    def create(self, name: str, data: bytes) -> bool:
        path = self.path / name
        temporary = _temporary(path, data)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return path.read_bytes() == data
        finally:
            temporary.unlink()
        sync_path(path.parent)
        return True

    def write(self, name: str, data: Any) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def sync(self, names: Iterable[str]) -> None:
        paths = [self.path / name for name in names]
        for path in (*paths, *{path.parent for path in paths}, self.path):
            sync_path(path)

    @contextlib.contextmanager
    def settled(self, always: str = "") -> Iterator[None]:
        before = self._below()
        yield
        made = self._below() - before
        if always:
            made |= {*self.path.rglob(always)}
        for path in (*sorted(made), *sorted({path.parent for path in made})):
            sync_path(path)

    def _below(self) -> set[Path]:
        return set(self.path.rglob("*"))

    def entries(self, after: str = "", before: str = "") -> list[Entry]:
        try:
            listed = os.scandir(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return []
        with listed:
            near = (one for one in listed if after < one.name and _is_before(one.name, before))
            return sorted(entry for one in near if (entry := _entry(one)) is not None)

    def folders(self) -> list[str]:
        try:
            with os.scandir(self.path) as found:
                names = [one.name for one in found if one.is_dir()]
                return sorted(name for name in names if not name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                (self.path / name).unlink()

    def arrow(self, name: str) -> Any:
        return str(self.path / name)

    @property
    def filesystem(self) -> Any:
        from pyarrow import fs

        return fs.SubTreeFileSystem(str(self.path), fs.LocalFileSystem())


def _entry(one: os.DirEntry[str]) -> Entry | None:
    """None: no file, or one that was renamed or deleted since it was listed. The folder is still
    there, and so are its other files."""
    try:
        return Entry(one.name, one.stat().st_size) if one.is_file() else None
    except FileNotFoundError:
        return None


def _is_before(name: str, end: str) -> bool:
    return not end or name < end


def _temporary(path: Path, data: bytes) -> Path:
    """A durable file beside `path`, which no listing by name takes for one of ours."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.new")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def sync_path(path: Path) -> None:
    """Make a file, or the names in a folder, durable. One that is gone is skipped, and so is a
    folder whose filesystem cannot sync it. Raises OSError."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)

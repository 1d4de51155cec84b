"""What a Store does.

A Store is a folder. Its files are named by a path below it, `day=2026-11-22/part-1.parquet`; its
folders are Stores again (`store / "readings"`). Nothing is ever changed in place: a file is put
whole, created if nobody else has, or deleted.

put() and create() have made the file durable when they return. write() has not: sync() does, for
many files at once, where that costs anything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple


class StoreError(OSError):
    """The storage refuses, or cannot be reached; str() names the place, and says what to do."""


class Entry(NamedTuple):
    """A file: its name below the store, and its length in bytes."""

    name: str
    size: int


class Store(ABC):
    """A folder of files. Every method raises OSError, of which StoreError is one."""

    @property
    @abstractmethod
    def uri(self) -> str:
        """As Delta and Arrow take it, and as the user wrote it: a path or a URL, without an end
        slash."""

    @property
    def options(self) -> dict[str, str] | None:
        """What Delta needs besides; None: nothing."""
        return None

    @property
    @abstractmethod
    def name(self) -> str:
        """The last part of the URI."""

    @property
    @abstractmethod
    def is_local(self) -> bool: ...

    @abstractmethod
    def __truediv__(self, name: str) -> Store:
        """A folder in this one. It need not exist."""

    @property
    def absolute(self) -> str:
        """A URI that means the same in every working directory."""
        return self.uri

    def is_there(self) -> bool:
        """Whether the folder exists. A bucket has no folders: files make them."""
        return True

    def __str__(self) -> str:
        return self.uri

    @abstractmethod
    def get(self, name: str) -> bytes:
        """Raises FileNotFoundError."""

    def get_all(self, names: Iterable[str]) -> list[bytes]:
        """Raises FileNotFoundError."""
        return [self.get(name) for name in names]

    @abstractmethod
    def size(self, name: str) -> int:
        """In bytes. Raises FileNotFoundError."""

    def exists(self, name: str) -> bool:
        try:
            self.size(name)
        except FileNotFoundError:
            return False
        return True

    @abstractmethod
    def put(self, name: str, data: bytes) -> None:
        """Replaces the file if it exists."""

    @abstractmethod
    def create(self, name: str, data: bytes) -> bool:
        """False, and nothing is written, if the file exists with other contents. Of several that
        create it at once, one succeeds."""

    @abstractmethod
    def write(self, name: str, data: Any) -> None:
        """A new file, from bytes or a buffer, which is durable after sync()."""

    @abstractmethod
    def sync(self, names: Iterable[str]) -> None:
        """Makes these files, written before, durable. Files that are gone are skipped."""

    @abstractmethod
    def settled(self, always: str = "") -> AbstractContextManager[None]:
        """What others (Delta) write below this folder inside the block is durable after it. always:
        the name of a file that they replace instead of making a new one."""

    @abstractmethod
    def entries(self, after: str = "", before: str = "") -> list[Entry]:
        """The files directly in the folder whose names come after the one and, if that is not "",
        before the other, in the order of their names. Empty if there is no such folder."""

    @abstractmethod
    def folders(self) -> list[str]:
        """The names of the folders directly in this one, sorted; not those that begin with a dot.
        Some servers keep a folder whose files are gone."""

    @abstractmethod
    def delete(self, names: Iterable[str]) -> None:
        """Files that are gone are skipped."""

    @abstractmethod
    def arrow(self, name: str) -> Any:
        """The file, opened for pyarrow: a path, or a file object. Raises FileNotFoundError."""

    @property
    @abstractmethod
    def filesystem(self) -> Any:
        """The folder as a filesystem of pyarrow, in which names are those of this store."""

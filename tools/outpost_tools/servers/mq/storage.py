"""Where messages go when there is no queue manager: JSON lines, or one file per message. put()
returns when they are durable.

JSON lines: one {"queue", "md", "data"} per message, data in base64. A line without its newline is a
torn write and is cut at the next start. Files: `000000000001.mq` has the message's bytes,
`000000000001.md.json` queue and MQMD. The `.mq` file gets its name last, so a reader that looks for
`*.mq` sees only complete pairs.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import fcntl
import json
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from outpost_tools.errors import ToolError
from outpost_tools.log.segments import sync_directory
from outpost_tools.servers.mq.descriptor import from_json
from outpost_tools.servers.mq.mapping import Outgoing
from outpost_tools.servers.mq.reasons import MqError

_OURS = re.compile("[0-9]{12}")  # the name of a message


class SinkError(Exception):
    """Nothing of the batch was put; it can be retried."""


class Unputtable(Exception):
    """Message `index` of the batch will never be accepted, and nothing of the batch was put."""

    def __init__(self, index: int, error: MqError) -> None:
        super().__init__(str(error))
        self.index = index
        self.error = error


class Sink(Protocol):
    """put(): all of them are durable and in order, or it raises SinkError or Unputtable.

    After SinkError it may be called again.
    """

    def put(self, messages: Sequence[Outgoing]) -> None: ...

    def close(self) -> None: ...


def to_json(message: Outgoing) -> dict[str, Any]:
    return {
        "queue": message.queue,
        "md": message.md.to_json(),
        "data": base64.b64encode(message.data).decode(),
    }


def from_line(line: str | bytes) -> Outgoing:
    """The message in one JSON line. Raises MqError."""
    try:
        record = json.loads(line)
        queue, md, data = (
            str(record["queue"]),
            record["md"],
            base64.b64decode(record["data"], validate=True),
        )
    except (ValueError, TypeError, LookupError, RecursionError, binascii.Error):
        raise MqError("json", 2334, 'not {"queue", "md", "data"} with data in base64') from None
    return Outgoing(queue, from_json(md), data)


class Lines:
    """A file of JSON lines that is only appended to.

    One process at a time: raises ToolError when another one has it locked.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _open_locked(path)
        self._length = _whole_lines(self._file)
        _check_lines(self._file, self._length, path)
        os.ftruncate(self._file, self._length)
        os.fsync(self._file)
        sync_directory(path.parent)

    def append(self, records: Sequence[dict[str, Any]]) -> None:
        """Durable when it returns. Raises SinkError; none of them is then in the file."""
        data = b"".join(json.dumps(record).encode() + b"\n" for record in records)
        try:
            os.ftruncate(self._file, self._length)  # removes what a failed write left
            _write_all(self._file, data, self._length)
            os.fsync(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._length)
            raise SinkError(f"cannot write {self._path}: {error.strerror}") from None
        self._length += len(data)

    def close(self) -> None:
        os.close(self._file)


class JsonLines:
    """Messages as JSON lines."""

    def __init__(self, path: Path) -> None:
        self._lines = Lines(path)

    def put(self, messages: Sequence[Outgoing]) -> None:
        self._lines.append([to_json(message) for message in messages])

    def close(self) -> None:
        self._lines.close()


class Files:
    """Messages as files in a directory; numbering continues after the existing ones."""

    def __init__(self, directory: Path) -> None:
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ToolError(f"{directory}: {error.strerror}") from None
        self._directory = directory
        self._lock = _open_locked(directory / ".lock")
        for path in directory.glob("*.part"):  # left by a kill
            if _OURS.fullmatch(path.stem):
                path.unlink()
        numbers = [int(path.stem) for path in directory.glob("*.mq") if path.stem.isdecimal()]
        self._last = max(numbers, default=0)

    def put(self, messages: Sequence[Outgoing]) -> None:
        names = []
        try:
            for number, message in enumerate(messages, self._last + 1):
                description = {"queue": message.queue, "md": message.md.to_json()}
                _write_file(
                    self._path(number, ".md.json"),
                    json.dumps(description, indent=2).encode() + b"\n",
                )
                _write_file(self._path(number, ".part"), message.data)
                names.append(number)
            for number in names:  # in order: a kill leaves the first ones, never a gap
                self._path(number, ".part").rename(self._path(number, ".mq"))
            sync_directory(self._directory)
        except OSError as error:
            raise SinkError(f"cannot write in {self._directory}: {error.strerror}") from None
        self._last += len(messages)

    def close(self) -> None:
        os.close(self._lock)

    def _path(self, number: int, suffix: str) -> Path:
        return self._directory / f"{number:012}{suffix}"


def _open_locked(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}") from None
    try:
        _lock(handle, path)
    except ToolError:
        os.close(handle)
        raise
    return handle


def _lock(handle: int, path: Path) -> None:
    """Raises ToolError."""
    # first: a device is everybody's, and so is its lock
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise ToolError(f"{path}: not a regular file, so lines would not be durable; name another")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise ToolError(
            f"{path} is in use by another bridge; stop it, or give this one another output"
        ) from None


def _check_lines(handle: int, length: int, path: Path) -> None:
    """Everything after `length` bytes of whole lines is going to be cut, so the file must be ours.
    A file without a whole line may be ours: a power cut can leave anything. Raises ToolError."""
    if length and os.pread(handle, 2, 0) != b'{"':
        raise ToolError(f"{path}: contains something other than JSON lines; name another file")


def _whole_lines(handle: int) -> int:
    """The length up to and including the last newline; reads backwards: a line may be long."""
    end = os.fstat(handle).st_size
    while end > 0:
        begin = max(0, end - (1 << 16))
        newline = os.pread(handle, end - begin, begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        end = begin
    return 0


def _write_all(handle: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(handle, view, offset)
        view, offset = view[written:], offset + written


def _write_file(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())

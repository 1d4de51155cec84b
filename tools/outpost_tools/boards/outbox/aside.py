"""Messages that a board set aside: list them, export them, send them again, discard them.

On a live board its own firmware changes the shelf (board.py). In an image the same firmware does
it, in a separate process (release_from_image.py). A message is released only after the broker
acknowledged it, or the outbox stored it again.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from outpost_tools.boards.outbox import release_from_image
from outpost_tools.boards.outbox.image import read_image
from outpost_tools.boards.outbox.shelf import Aside, read_shelf
from outpost_tools.boards.outbox.show import shown, text_fields
from outpost_tools.errors import ToolError
from outpost_tools.machine.source_tree import firmware_environment, repository

_SHOWN_BYTES = 60
NOT_PASSED_ON = " (the broker took it and did not pass it on)"
_ROW = "{:>10} {:<8} {:>3} {:>6}  {}"


class Shelf(Protocol):
    """The shelf of a board (board.py), or of an image."""

    messages: list[Aside]

    def release(self, message: Aside) -> None: ...

    def send_again(self, message: Aside) -> None: ...


# --- What is there ---


def lines(messages: list[Aside]) -> Iterator[str]:
    """One line per message."""
    if messages:
        yield _ROW.format("number", "stream", "QoS", "bytes", "topic and payload")
    for one in messages:
        size = len(one.topic) + len(one.payload)
        start = one.payload[:_SHOWN_BYTES]
        rest = " ..." if len(one.payload) > _SHOWN_BYTES else ""
        rest += NOT_PASSED_ON if one.marked else ""
        text = f"{shown(one.topic)} {shown(start)}{rest}"
        yield _ROW.format(one.seq, one.stream or "?", one.qos, size, text)


def as_json(message: Aside) -> dict[str, Any]:
    fields = {"stream": message.stream, "seq": message.seq, "state": "aside"}
    fields |= {"reason": "not passed on" if message.marked else "refused"}
    fields |= {"qos": message.qos, "retain": message.retain}
    return fields | text_fields("topic", message.topic) | text_fields("payload", message.payload)


def chosen(messages: list[Aside], seq: int | None) -> list[Aside]:
    """seq None: all. Raises ToolError when there is none, or more than one with that number."""
    if not messages:
        raise ToolError("no message is set aside")
    found = [one for one in messages if seq in (None, one.seq)]
    if not found:
        numbers = ", ".join(str(one.seq) for one in messages)
        raise ToolError(f"no message {seq} is set aside; there are {numbers}")
    if seq is not None and len(found) > 1:
        raise ToolError(f"{len(found)} streams have a message {seq}: say --all")
    return found


# --- In an image ---


def bytes_of(path: Path) -> bytes:
    """Raises ToolError."""
    if path.is_char_device():  # a serial port may send anything, and never ends
        raise ToolError(f"{path} is a device, not an image; of a board: --live {path}")
    try:
        return path.read_bytes()
    except OSError as error:
        raise ToolError(
            f"{path}: {error.strerror}; name a file with the bytes of the outbox's flash region"
        ) from None


class ImageShelf:
    """The messages set aside in an image file. Raises ToolError."""

    def __init__(self, path: Path) -> None:
        data = bytes_of(path)
        image = read_image(data)
        self.messages = read_shelf(data, image.stream, image.age).messages
        self._path = path
        self._align = image.head.header.align if image.chain else 4

    def release(self, message: Aside) -> None:
        crc = zlib.crc32(message.topic + message.payload)
        where = self._path, self._align, self.messages.index(message), crc
        command = [sys.executable, str(Path(release_from_image.__file__)), *map(str, where)]
        environment = firmware_environment(repository())
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode:
            why = (done.stdout + done.stderr).strip().splitlines()[-1:] or ["no reason given"]
            raise ToolError(f"{self._path}: the message cannot be released: {why[0]}")

    def send_again(self, message: Aside) -> None:
        raise ToolError(f"{self._path}: an image cannot send: use --settings")


@contextlib.contextmanager
def image_shelf(path: Path) -> Iterator[ImageShelf]:
    """Raises ToolError."""
    try:
        yield ImageShelf(path)
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}") from None


# --- Removing them ---


def give_up(shelf: Shelf, seq: int | None) -> list[Aside]:
    """Returns the discarded messages. Raises ToolError."""
    found = chosen(shelf.messages, seq)
    for message in found:
        _release(shelf, message)
    return found


def send_by_board(shelf: Shelf, seq: int | None) -> list[Aside]:
    """The board stores them again. Raises ToolError; the messages before the error are stored."""
    found = chosen(shelf.messages, seq)
    for message in found:
        shelf.send_again(message)
        shelf.messages.remove(message)
    return found


def _release(shelf: Shelf, message: Aside) -> None:
    shelf.release(message)
    shelf.messages.remove(message)


def publish(shelf: Shelf, seq: int | None, settings: dict[str, Any], folder: Path) -> list[Aside]:
    """Send from here to the board's broker, and release each message when it is acknowledged.
    Raises ToolError; the messages before the error are sent."""
    from outpost_tools.boards.outbox import publishing

    found = chosen(shelf.messages, seq)
    with publishing.connected(settings, folder) as broker:
        for message in found:
            broker.send(message)
            _release(shelf, message)
    return found

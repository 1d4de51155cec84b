"""Changes to the outbox of a live board, over its serial port: a new outbox, and messages set
aside.

The board makes the changes with its own firmware; its program is stopped before and restarted
after. This module has the scripts and reads their output.
"""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from outpost_tools.boards.flash import outbox_image
from outpost_tools.boards.outbox.image import read_image
from outpost_tools.boards.outbox.shelf import Aside, read_shelf
from outpost_tools.boards.port import console
from outpost_tools.errors import ToolError
from outpost_tools.machine import needs

_LOOK = """
def look():
    device = find_quietly()
    held = -1
    if device:
        outbox, status = mount(device)
        if status == 0:
            held = outbox.next_seq - outbox.oldest_seq
    count = 0
    if getattr(board, "flash", None):
        from support.pinning import remains
        count = len(remains(board.flash))
    print("N", held, count)

def find_quietly():
    try:
        return find()
    except AttributeError:
        return None

look()
"""
_NEW = """
def new():
    if getattr(board, "flash", None):
        from support import pinning
        pinning.release("/outbox", force=True)
        pinning.start_new("/outbox")
        return print("D 0")
    from outpost.outbox import Outbox
    outbox = Outbox(board.device, align=board.align, page_bytes=board.page_bytes)
    print("D", outbox.format(board.random_hex(), True))

new()
"""

# What was read from the board shows which message is at which place of the shelf; the checksum
# proves that it is still there.
_SHELF = """
def mounted():
    outbox, status = mount(device)
    if status:
        raise OSError("mount: status %d" % status)
    return outbox

def loaded(index, crc):
    outbox = mounted()
    if outbox.shelf().load(index):
        raise OSError("no such message is set aside any more")
    at = outbox.topic_at
    middle = at + outbox.topic_length
    end = middle + outbox.payload_length
    topic, payload = bytes(outbox.buffer[at:middle]), bytes(outbox.buffer[middle:end])
    if crc32(topic + payload) != crc:
        raise OSError("another message is set aside there now")
    return outbox, topic, payload

def release(index, crc):
    print("R", loaded(index, crc)[0].shelf().release(index))

def again(index, crc):
    outbox, topic, payload = loaded(index, crc)
    status = outbox.append(topic, payload, len(payload), outbox.flags)
    print("S", status)
    if not status:
        print("R", outbox.shelf().release(index))

def mode():
    from station.settings import load
    return load("settings.json")["mode"]
"""


@dataclass(frozen=True, slots=True)
class Found:
    """held: messages of the outbox, -1 when none can be mounted. parts: blocks of the flash that
    begin like a block of an outbox, whoever owns them."""

    held: int
    parts: int

    @property
    def is_nothing(self) -> bool:
        return self.held == 0 or (self.held < 0 and not self.parts)

    def __str__(self) -> str:
        if self.held >= 0:
            return f"{self.held:,} messages are held in it"
        return f"it cannot be opened; parts of it are in {self.parts} blocks of the flash"


def make_new(port: str, answer_s: float, *, is_sure: bool) -> Found:
    """Discards the messages in the board's outbox; its next start makes a new one. Returns what was
    there. Raises ToolError, also when there is something and the user did not confirm."""
    with console.connected(port, answer_s) as board:
        found = _look(port, board)
        if not found.is_nothing and not is_sure:
            raise ToolError(
                f"{port}: {found}: save them (outpost outbox export --live {port}"
                f"{'' if found.held >= 0 else ' --raw'} --segments log --id rescue-1), then say "
                "--yes"
            )
        lines = board.run(_NEW, answer_s=max(answer_s, 60.0))
        status = _number(port, lines, rb"D (-?\d+)")
        if status:
            raise ToolError(f"{port}: the board could not make it: status {status}")
        return found


def _look(port: str, board: console.Console) -> Found:
    script = outbox_image.OPEN + outbox_image.MOUNT + _LOOK
    lines = board.run(script, answer_s=max(board.answer_s, 60.0))
    for line in lines:
        if line.startswith((b"outpost: ", b"settings: ")):
            outbox_image.check_found(port, [line])
    found = re.search(rb"^N (-?\d+) (\d+)", b"\n".join(lines), re.MULTILINE)
    if not found:
        raise ToolError(f"{port}: the board does not say what its outbox holds")
    return Found(int(found[1]), int(found[2]))


def _number(port: str, lines: list[bytes], pattern: bytes) -> int:
    found = re.search(rb"^" + pattern, b"\n".join(lines), re.MULTILINE)
    if not found:
        said = console.printable(b" / ".join(lines))[-200:]
        raise ToolError(f"{port}: the board does not answer as it should: {said}")
    return int(found[1])


class Shelf:
    """The messages set aside on a board whose program is stopped."""

    def __init__(self, inner: console.Console, port: str, data: bytes) -> None:
        self._inner, self._port = inner, port
        image = read_image(data)
        self.messages = read_shelf(data, image.stream, image.age).messages

    def release(self, message: Aside) -> None:
        """Raises ToolError."""
        lines = self._inner.run(self._call("release", message))
        _check_status(self._port, _number(self._port, lines, rb"R (-?\d+)"), "release it")

    def send_again(self, message: Aside) -> None:
        """The board stores it again, under a new number. Raises ToolError."""
        if b"collector" in b"".join(self._inner.run("print(mode())")):
            raise ToolError(
                f"{self._port}: in collector mode a message keeps its number, so the board cannot "
                "send it under a new one: use --settings, and it is sent from here"
            )
        lines = self._inner.run(self._call("again", message))
        _check_status(self._port, _number(self._port, lines, rb"S (-?\d+)"), "store it")
        _check_status(self._port, _number(self._port, lines, rb"R (-?\d+)"), "release it")

    def _call(self, name: str, message: Aside) -> str:
        crc = zlib.crc32(message.topic + message.payload)
        return f"{name}({self.messages.index(message)}, {crc})"


@contextlib.contextmanager
def shelf(port: str, answer_s: float) -> Iterator[Shelf]:
    """Raises ToolError."""
    needs.check("boards")
    with console.connected(port, answer_s) as inner, outbox_image.progress_bar() as show:
        found = outbox_image.read_from(inner, port, show)
        inner.run(outbox_image.MOUNT + _SHELF)
        yield Shelf(inner, port, found.data)


def _check_status(port: str, status: int, what: str) -> None:
    if status:
        name = {-1: ": it is full", -5: ": the flash did not accept it"}.get(status, "")
        raise ToolError(f"{port}: the board could not {what}, status {status}{name}")

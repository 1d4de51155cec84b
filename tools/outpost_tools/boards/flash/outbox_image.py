"""Reads the outbox of a live board over its serial port, as an image that a flash reader would
return.

It stops the board's program (`boards/port/console.py`), makes the board send its outbox block by
block, each with a CRC, and restarts the program. It writes nothing to the flash.
"""

from __future__ import annotations

import binascii
import contextlib
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from outpost_tools.boards.port import console
from outpost_tools.errors import ToolError
from outpost_tools.machine import needs

_BLOCK_BYTES = 4096

# The device is opened as firmware/main.py opens it, and only read. A block is sent without the
# erased bytes at its end. Its number is part of the CRC (as the start value), so that a block with
# a damaged number is not mistaken for another one. Older boards have all modules in one package, or
# a board.py with functions instead of a class.
OPEN = """
from binascii import b2a_base64, crc32

def find():
    global board
    try:
        import board
        try:
            from station.settings import load
        except ImportError:
            from outpost.settings import load
    except ImportError as error:
        return print("outpost:", error)
    try:
        settings = load("settings.json")
    except ValueError as error:
        return print("settings:", error)
    try:
        if hasattr(board, "outbox_device"):
            return board.outbox_device(settings)
        board = board.Board()
        return board.open(settings).device
    except Exception as error:
        return without_owners(error)

def without_owners(error):
    try:
        import machine
        from support.pinning import read_only
        found = read_only(board.flash, "/outbox", machine.unique_id())
        print("pins:", error)
        return found
    except Exception:
        print("device:", type(error).__name__, error)

class Remains:
    def __init__(self, raw):
        from support.pinning import remains
        self.raw = raw
        self.blocks = remains(raw)

    def ioctl(self, op, arg):
        return len(self.blocks) if op == 4 else 4096

    def readblocks(self, block, buf, offset=0):
        self.raw.readblocks(self.blocks[block], buf, offset)

def find_remains():
    device = find()
    raw = getattr(board, "flash", None)
    if raw:
        return Remains(raw)
    return device

"""
# Mounts with series only if the plain outbox reports a newer format.
MOUNT = """
def mount(device):
    from outpost.outbox import Outbox
    outbox = Outbox(device, align=board.align, page_bytes=board.page_bytes)
    status = outbox.mount()
    if status == -12:
        try:
            from outpost.series_outbox import over
        except ImportError:
            return outbox, status
        outbox = over(Outbox)(device, 1024, align=board.align, page_bytes=board.page_bytes)
        status = outbox.mount()
    return outbox, status
"""
_SEND = """
def send(numbers):
    count, block_bytes = device.ioctl(4, 0), device.ioctl(5, 0)
    print("H %d %d %08x" % (count, block_bytes, crc32(b"%d %d" % (count, block_bytes))))
    buffer = bytearray(block_bytes)
    for number in range(count) if numbers is None else numbers:
        device.readblocks(number, buffer, 0)
        data = bytes(buffer).rstrip(b"\\xff")
        print("B %d %08x " % (number, crc32(buffer, number)), end="")
        for at in range(0, len(data), 384):
            print(str(b2a_base64(data[at:at + 384]), "ascii").strip(), end="")
        print()
        board.feed_watchdog()
"""
_HEADER = re.compile(rb"H (\d+) (\d+) ([0-9a-f]{8})")
_BLOCK = re.compile(rb"B (\d{1,9}) ([0-9a-f]{8}) (\S*)")
_PINS = b"pins"  # not a refusal: the outbox is read anyway
_REFUSALS = {
    b"outpost": "no Outpost on the board",
    b"settings": "the board's settings are invalid",
    b"device": "the board cannot open its outbox",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """data: the bytes of the region. pins: what is wrong with the files that should own it, or
    ""."""

    data: bytes
    pins: str


def read_outbox(
    port: str,
    answer_s: float = console.ANSWER_S,
    show: Callable[[int, int], None] = lambda done, total: None,
    *,
    raw: bool = False,
) -> Reading:
    """show: called with (blocks so far, blocks). raw: read each block of the flash that begins like
    a block of an outbox, whoever owns it. Raises ToolError."""
    needs.check("boards")
    with console.connected(port, answer_s) as board:
        return read_from(board, port, show, raw=raw)


def read_from(
    board: console.Console, port: str, show: Callable[[int, int], None], *, raw: bool = False
) -> Reading:
    """As read_outbox(), but from a board whose program is stopped. The board's `device` stays
    open."""
    begin = "device = find_remains()" if raw else "device = find()"
    output = board.run(f"{OPEN}{_SEND}\n{begin}\nprint('raw' if device else '')")
    pins = check_found(port, output, is_raw=raw)
    return Reading(_collect(port, board, show), pins)


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[int, int], None]]:
    """Yields a function for `show` that draws a bar on stderr, if that is a terminal."""
    from tqdm import tqdm

    with tqdm(
        desc="reading the board", unit="block", disable=None, leave=False, file=sys.stderr
    ) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield show


def check_found(port: str, output: list[bytes], *, is_raw: bool = False) -> str:
    """What is wrong with the files that should own the outbox; "" if nothing is. Raises ToolError
    if the board could not open it."""
    lines = b"\n".join(output).splitlines()
    pins = ""
    for line in lines:
        kind, _, reason = line.partition(b": ")
        if kind == _PINS or (kind == b"device" and is_raw and lines[-1] == b"raw"):
            pins = console.printable(reason)
        elif kind in _REFUSALS:
            raise ToolError(f"{port}: {_REFUSALS[kind]}: {console.printable(reason)}")
    return pins


def _collect(port: str, board: console.Console, show: Callable[[int, int], None]) -> bytes:
    blocks: dict[int, bytes] = {}
    count = 0

    def take(line: bytes) -> bool:
        nonlocal count
        header = _count_of(port, line)
        block = None if header else _block_of(line)
        count = header or count
        if block is not None:
            blocks[block[0]] = block[1]
            show(len(blocks), count)
        return bool(header or block)

    board.run("send(None)", take)
    missing = [number for number in range(count) if number not in blocks]
    if missing or not count:
        board.run(f"send({missing if count else None})", take)
        missing = [number for number in range(count) if number not in blocks]
    if missing or not count:
        which = f"block {missing[0]}" if missing else "the first line"
        raise ToolError(f"{port}: {which} arrived damaged twice; use a shorter cable, or try again")
    return b"".join(blocks[number] for number in range(count))


def _count_of(port: str, line: bytes) -> int | None:
    """The number of blocks in the region, if the line is intact and contains it. Raises ToolError
    if the blocks have another size."""
    found = _HEADER.fullmatch(line)
    if found is None or zlib.crc32(b"%s %s" % found.group(1, 2)) != int(found[3], 16):
        return None
    if int(found[2]) != _BLOCK_BYTES:
        raise ToolError(
            f"{port}: the board's blocks have {int(found[2])} bytes, not {_BLOCK_BYTES}: that is "
            "not an outbox device"
        )
    return int(found[1])


def _block_of(line: bytes) -> tuple[int, bytes] | None:
    """Return (number, bytes) of a block, or None if it did not arrive intact."""
    found = _BLOCK.fullmatch(line)
    if found is None:
        return None
    try:
        data = binascii.a2b_base64(found[3], strict_mode=True) if found[3] else b""
    except binascii.Error:
        return None
    data = data.ljust(_BLOCK_BYTES, b"\xff")
    number = int(found[1])
    return (
        (number, data)
        if len(data) == _BLOCK_BYTES and zlib.crc32(data, number) == int(found[2], 16)
        else None
    )

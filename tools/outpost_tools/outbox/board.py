"""Replaces the outbox of a live board, over its serial port.

The board does it with its own firmware; the program is stopped before and restarted after. Here are
the scripts and what their lines mean.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from outpost_tools.common.errors import ToolError
from outpost_tools.device import console
from outpost_tools.outbox import live

_LOOK = """
def look():
    from outpost.outbox import Outbox
    device = find_quietly()
    held = -1
    if device:
        outbox = Outbox(device, align=board.align, page_bytes=board.page_bytes)
        if outbox.mount() == 0:
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


@dataclass(frozen=True, slots=True)
class Found:
    """held: messages of the outbox that opens, -1 when none does. parts: blocks of the flash that
    begin as one of an outbox, whoever owns them."""

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
    """Gives up what the board's outbox holds; its next start makes a new one. Returns what there
    was. Raises ToolError, also when there is something and nobody was sure."""
    with console.connected(port, answer_s) as board:
        found = _look(port, board)
        if not found.is_nothing and not is_sure:
            raise ToolError(
                f"{port}: {found}: save them (outpost outbox export --live {port}"
                f"{'' if found.held >= 0 else ' --raw'}), then say --yes"
            )
        lines = board.run(_NEW, answer_s=max(answer_s, 60.0))
        status = _number(port, lines, rb"D (-?\d+)")
        if status:
            raise ToolError(f"{port}: the board could not make it: status {status}")
        return found


def _look(port: str, board: console.Console) -> Found:
    lines = board.run(live.OPEN + _LOOK, answer_s=max(board.answer_s, 60.0))
    for line in lines:
        if line.startswith((b"outpost: ", b"settings: ")):
            live.check_found(port, [line])
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

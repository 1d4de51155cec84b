"""Text of others (a message, a board, a file), made fit for a terminal or a log: a character that
is not printable is written as its escape, so that it can neither play with the terminal nor hide.

visible() is for a piece of such text within a line. guarded() is the net below all that a command
prints: there a line break is ours and passes; what moves a cursor, colours, rings, or turns the
direction of text does not. Raw bytes that a command writes to stdout's buffer pass.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, TextIO


def visible(text: str | bytes) -> str:
    r"""ESC becomes \x1b, a line break \n; bytes that are no UTF-8 become U+FFFD."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")


def visible_lines(text: str) -> str:
    """As visible(), but line breaks and tabs stay."""
    if text.isprintable():
        return text
    return "".join(one if one in "\n\t" else _escaped(one) for one in text)


class _Guard:
    """A text stream whose text goes through visible_lines(); all else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self.unguarded = stream

    def write(self, text: str) -> int:
        self.unguarded.write(visible_lines(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unguarded, name)


def unguarded(stream: TextIO) -> TextIO:
    """For what moves the cursor itself: a progress bar of our own words."""
    return getattr(stream, "unguarded", stream)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """stdout and stderr show control characters."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_Guard(stream) for stream in before)  # pyright: ignore
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before

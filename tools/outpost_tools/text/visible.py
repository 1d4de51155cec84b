"""Makes text from others (a message, a board, a file) safe for a terminal or a log: a character
that is not printable is written as its escape, so that it can neither manipulate the terminal nor
hide.

visible() is for a piece of such text within a line. guarded() is the safety net for everything that
a command prints. There, line breaks are ours and are kept; characters that move a cursor, set
colours, ring, or change the direction of text are not. Raw bytes that a command writes to stdout's
buffer are not changed.

A result that cannot be printed is an error. A line on stderr that cannot be written is lost, but
ends nothing: the full disk for which a collector waits may be the one with its log.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from outpost_tools.errors import ToolError


def visible(text: str | bytes) -> str:
    r"""ESC becomes \x1b, a line break \n; bytes that are not UTF-8 become U+FFFD."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")


def visible_lines(text: str) -> str:
    """As visible(), but keeps line breaks and tabs."""
    if text.isprintable():
        return text
    return "".join(one if one in "\n\t" else _escaped(one) for one in text)


class _Guard:
    """A text stream whose text goes through visible_lines(); everything else is the stream's own. A
    subclass defines _try(), which performs an action on the stream."""

    def __init__(self, stream: TextIO) -> None:
        self.unguarded = stream

    def write(self, text: str) -> int:
        shown = self._writable(visible_lines(text))
        self._try(lambda: self.unguarded.write(shown))
        return len(text)

    def _writable(self, text: str) -> str:
        r"""Where the stream's encoding lacks a character, it becomes \u00e4 as well."""
        encoding = getattr(self.unguarded, "encoding", None)
        if text.isascii() or not encoding:
            return text
        return text.encode(encoding, "backslashreplace").decode(encoding)

    def write_bytes(self, data: bytes) -> None:
        """Writes bytes unchanged; not for a terminal."""
        self._try(lambda: self.unguarded.buffer.write(data))

    def flush(self) -> None:
        self._try(self.unguarded.flush)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unguarded, name)

    def _try(self, action: Callable[[], object]) -> None:
        raise NotImplementedError

    def _lead_nowhere(self) -> None:
        """Redirects the stream to /dev/null. At exit, Python writes what is left in its buffer,
        which would fail again."""
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.unguarded.fileno())
            os.close(nowhere)


class _Results(_Guard):
    """stdout. Raises BrokenPipeError when nobody reads it any more, otherwise ToolError."""

    def _try(self, action: Callable[[], object]) -> None:
        try:
            action()
        except OSError as error:
            self._lead_nowhere()
            if isinstance(error, BrokenPipeError):
                raise
            raise ToolError(f"stdout: {error.strerror or error}") from None


class _Words(_Guard):
    """stderr. No program and no thread ends because a line could not be written."""

    def _try(self, action: Callable[[], object]) -> None:
        with contextlib.suppress(OSError):
            action()

    def close_up(self) -> None:
        """Call it at the end of the program."""
        try:
            self.unguarded.flush()
        except OSError:
            self._lead_nowhere()


def unguarded(stream: TextIO) -> TextIO:
    """For output that moves the cursor itself: a progress bar with our own text."""
    return getattr(stream, "unguarded", stream)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """stdout and stderr show control characters as escapes, and work even if the caller closed
    them."""
    before = sys.stdout, sys.stderr
    with open(os.devnull, "w", encoding="utf-8", errors="backslashreplace") as nowhere:
        words = _Words(before[1] or nowhere)
        sys.stdout, sys.stderr = _Results(before[0] or nowhere), words  # pyright: ignore
        try:
            yield
        finally:
            words.close_up()
            sys.stdout, sys.stderr = before

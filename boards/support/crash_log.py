"""Keeps the reason for a crash over the reset, and decides how long the next start must wait.

The reason goes into a file of at most 1,000 characters, which is written only if the reason is new:
a board that crashes at each start does not wear its flash. Starts in a row are counted where the
board can count without flash (RTC memory, a register that survives a reset). From the fourth on,
each waits: 2 s, 4 s, up to 10 min. So at most 150 starts a day reach the outbox.
"""

import io
import os
import sys

from micropython import const

_MOST = const(1000)
_MARK = const("no_memory")  # a file
_FREE_STARTS = const(3)
_LONGEST_MS = const(600_000)


def text_of(error):
    """The end of an exception's traceback, which contains the reason."""
    try:
        out = io.StringIO()
        # The stubs differ in what StringIO is, and CPython has no print_exception.
        sys.print_exception(error, out)  # pyright: ignore
        return out.getvalue()[-_MOST:]  # pyright: ignore[reportAttributeAccessIssue]
    except (AttributeError, MemoryError):  # no such function; not enough memory for the text
        return repr(error)[-_MOST:]


def tell(error):
    """Print it, and keep it in crash.txt. Raises nothing, not even MemoryError: the caller resets
    next, and before the loop there is no watchdog that would do it instead."""
    tell_text(text_of(error))


def tell_text(text):
    """As tell(). True if it was told."""
    try:
        print(text)
        keep("crash.txt", text)
        return True
    except Exception:
        return False


def mark(is_out):
    """With True: note for the next start that this run ended because there was no memory. With
    False: take the note back. Returns 1 if there was one. Raises nothing."""
    try:
        if is_out:
            open(_MARK, "w").close()
        else:
            os.remove(_MARK)
        return 1
    except Exception:
        return 0


def keep(path, text):
    """Write text to the file, unless it is there already. False if nothing was written."""
    try:
        with open(path) as file:
            if file.read() == text:
                return False
    except (OSError, ValueError):  # no file, or not text
        pass
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError:  # no room: the board must reset nevertheless
        return False
    return True


def pause_ms(starts):
    """How long the n-th start in a row must wait."""
    return min(1000 << min(starts - _FREE_STARTS, 10), _LONGEST_MS) if starts > _FREE_STARTS else 0

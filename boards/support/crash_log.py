"""Why the program ended, kept over the reset, and how long to wait before it may begin again.

The reason goes to a file of 1,000 characters at most, which is written only when it says something
new: a board that crashes at each start programs no flash for it. Starts in a row are counted where
the board can count without flash (RTC memory, a register that a reset leaves alone); from the
fourth on each waits, 2 s, 4 s, to 10 min: at most 150 starts a day reach the outbox.
"""

import io
import sys

from micropython import const

_MOST = const(1000)
_FREE_STARTS = const(3)
_LONGEST_MS = const(600_000)


def text_of(error):
    """What an exception and its traceback say: the end of it, where the reason is."""
    try:
        out = io.StringIO()
        # The stubs differ in what StringIO is, and CPython has no print_exception.
        sys.print_exception(error, out)  # pyright: ignore
        return out.getvalue()[-_MOST:]  # pyright: ignore[reportAttributeAccessIssue]
    except (AttributeError, MemoryError):  # no such function; no room for words
        return repr(error)[-_MOST:]


def tell(error):
    """At the prompt, and in crash.txt. Raises nothing, not even for want of memory: a reset is to
    follow, and before the loop no watchdog would bring it."""
    try:
        text = text_of(error)
        print(text)
        keep("crash.txt", text)
    except Exception:
        return


def keep(path, text):
    """Write text to the file, unless it says so already. False when nothing was written."""
    try:
        with open(path) as file:
            if file.read() == text:
                return False
    except (OSError, ValueError):  # none, or no text
        pass
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError:  # no room: the reset must come all the same
        return False
    return True


def pause_ms(starts):
    """How long the n-th start in a row must wait."""
    return min(1000 << min(starts - _FREE_STARTS, 10), _LONGEST_MS) if starts > _FREE_STARTS else 0

"""A time limit for a whole conversation. The timeout of a single read does not stop a peer that
sends a byte now and then."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

_TURN_S = 0.5


@contextlib.contextmanager
def within(
    seconds: float, link: Callable[[], socket.socket | None]
) -> Iterator[Callable[[], bool]]:
    """Yields a function that returns whether the time has run out. link: returns the current
    socket, which is then shut down, so that its reader gets the end of the stream."""
    late, done = threading.Event(), threading.Event()

    def watch() -> None:
        wait_s = seconds
        while not done.wait(wait_s):
            late.set()
            wait_s = _TURN_S  # it may not be connected yet, or be replaced by one with TLS
            found = link()
            if found is not None:
                with contextlib.suppress(OSError):
                    # not SSLSocket.shutdown(), which would remove the TLS object during the read
                    socket.socket.shutdown(found, socket.SHUT_RDWR)

    threading.Thread(target=watch, name="deadline", daemon=True).start()
    try:
        yield late.is_set
    finally:
        done.set()

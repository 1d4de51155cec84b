"""A bound for a whole conversation: a peer that trickles a byte now and then passes every timeout
of a single read."""

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
    """Yields: has the time run out? link: the socket as it is then; it is shut down, and who reads
    from it gets its end."""
    late, done = threading.Event(), threading.Event()

    def watch() -> None:
        wait_s = seconds
        while not done.wait(wait_s):
            late.set()
            wait_s = _TURN_S  # it may not be connected yet, or be another one with TLS
            found = link()
            if found is not None:
                with contextlib.suppress(OSError):
                    # not SSLSocket's own, which takes the TLS object away from under the reader
                    socket.socket.shutdown(found, socket.SHUT_RDWR)

    threading.Thread(target=watch, name="deadline", daemon=True).start()
    try:
        yield late.is_set
    finally:
        done.set()

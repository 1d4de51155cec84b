"""Is the collector well? Reported at `/healthz`, and to systemd through its notification socket
(sd_notify(3)).

Well means: connected, and the last write and seal worked. The loop reports what is wrong, and that
it still turns. Another thread can ask for the reason.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable

# If the loop has not turned for this long, it hangs, whatever it last reported: a write to a dead
# disk.
STUCK_S = 60.0
_KEEP_ALIVE_S = 5.0


class Health:
    """The health of one collector; the loop words the `reasons`."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._reasons: dict[str, str] = {"start": "starting: the broker has not answered yet"}
        self._turned_at = now()
        self._told_alive_at = float("-inf")
        self._remarks: dict[str, str | None] = {}

    def turned(self) -> None:
        """Call this at each turn of the loop."""
        now = self._turned_at = self._now()
        if now - self._told_alive_at >= _KEEP_ALIVE_S:
            self._told_alive_at = now
            notify("WATCHDOG=1")

    def tell(self, what: str, reason: str | None) -> None:
        """Set the reason why `what` is not well; None: it is well."""
        if self._reasons.get(what) == reason:
            return
        # one assignment: the other thread sees the old reasons or the new ones
        others = {name: text for name, text in self._reasons.items() if name != what}
        self._reasons = others if reason is None else others | {what: reason}
        notify(f"STATUS={self.reason or 'connected, storing'}")

    def remark(self, what: str, text: str | None) -> None:
        """What should be known of `what`, and is no fault of the collector's."""
        self._remarks = self._remarks | {what: text}

    @property
    def text(self) -> str:
        """The body of `/healthz`."""
        return "; ".join(one for one in (self.reason or "ok", *self._remarks.values()) if one)

    def ready(self) -> None:
        self.tell("start", None)
        notify("READY=1")

    @property
    def reason(self) -> str | None:
        """Why it is not well, None when it is."""
        silent_s = self._now() - self._turned_at
        stuck = [f"no turn for {silent_s:.0f} s"] if silent_s > STUCK_S else []
        return "; ".join([*self._reasons.values(), *stuck]) or None


def notify(text: str) -> None:
    """Notify the service manager, if there is one; ten lines instead of a library."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
            link.setblocking(False)
            link.sendto(" ".join(text.splitlines()).encode(), address)
    except OSError:
        pass  # the manager is gone, or does not read: that is not our problem

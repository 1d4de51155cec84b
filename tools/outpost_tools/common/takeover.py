"""Detects another client that uses our client identifier. Knows times, no network.

The broker gives the identifier to the client that connected last and ends the other's connection;
the other one then reconnects and takes it back. MQTT 3.1.1 sends no reason, so we recognise the
pattern: the peer ends connection after connection soon after it was accepted, and no attempt in
between fails, as attempts would while a broker restarts.
"""

from __future__ import annotations

SOON_S = 60.0
ENOUGH = 3  # consecutive ones

ADVICE = (
    "another client seems to use the id {id!r}, and the broker gives it to the one that connected "
    "last: look for a second program with this id, stop it, or give one of them another id. With "
    "the users of `outpost broker` no board can do this. What the broker had queued may be lost "
    "meanwhile: boards in collector mode send it again"
)


class Takeovers:
    """count: connections that were taken over, starting with the one that completed the pattern."""

    def __init__(self) -> None:
        self.count = 0
        self._in_a_row = 0

    @property
    def is_likely(self) -> bool:
        return self._in_a_row >= ENOUGH

    def failed(self) -> None:
        """An attempt to connect failed, or we ended the connection."""
        self._in_a_row = 0

    def ended(self, age_s: float) -> bool:
        """The peer ended a connection accepted age_s ago. True: it looks taken over."""
        self._in_a_row = self._in_a_row + 1 if age_s < SOON_S else 0
        self.count += self.is_likely
        return self.is_likely

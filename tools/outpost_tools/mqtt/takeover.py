"""Whether another client uses our client identifier, decided only on evidence. Knows times, no
network.

The broker gives the identifier to the client that connected last, and ends the connection of the
other one, which then reconnects and takes it back. In MQTT 5.0 the broker says so by DISCONNECT
with reason 0x8E. MQTT 3.1.1 has no reason codes for this, or for a limit that we exceeded: in each
case a connection simply ends soon. So a caller that speaks 3.1.1 tries 5.0 after several such ends.
If the broker does not speak 5.0, it reports that the cause is unknown.
"""

from __future__ import annotations

SOON_S = 60.0
ENOUGH = 3  # consecutive ones

ADVICE = (
    "another client uses the id {id!r}, says the broker, which gives it to the one that connected "
    "last: look for a second program with this id, stop it, or give one of them another id. With "
    "the users of `outpost broker` no board can do this. What the broker had queued may be lost "
    "meanwhile: boards in collector mode send it again"
)
UNKNOWN = (
    "the broker ends each connection soon after it has begun, and does not say why: its log may. "
    "Usual causes: another client with the id {id!r}, a limit of the broker (RETAIN, QoS, packet "
    "size), a topic that this user may not use"
)


class Takeovers:
    """count: how many connections were taken over, according to the broker."""

    def __init__(self) -> None:
        self.count = 0
        self._in_a_row = 0

    @property
    def is_unsteady(self) -> bool:
        """True after several connections that the peer ended soon."""
        return self._in_a_row >= ENOUGH

    def failed(self) -> None:
        """An attempt to connect failed, or we ended the connection."""
        self._in_a_row = 0

    def ended(self, age_s: float, *, is_said: bool = False) -> None:
        """The peer ended a connection that it accepted `age_s` ago. is_said: it named another
        client as the reason."""
        self._in_a_row = self._in_a_row + 1 if age_s < SOON_S else 0
        self.count += is_said

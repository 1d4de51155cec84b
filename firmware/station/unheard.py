"""Counts, in collector mode, for how long no collector has confirmed anything.

It counts the time that the board is connected and holds messages, since the last confirmation or
the start. The board keeps sending all the while. This only reports it: once an hour at the prompt,
and in telemetry as `unheard`, in hours (`health.py`).

A board in deep sleep does not count. After a wake that connected without a confirmation, the number
of messages that it holds shows for how long. It says so only at the prompt, once in each such wake.

Allocation: construction only.
"""

from micropython import const

_CONNECTED = const(2)
_DAY_MINUTES = const(1440)
_HOUR_MS = const(3_600_000)
_TOLD = const(
    "outpost: the broker takes the messages, and no collector has confirmed one for an hour. They "
    "stay in flash until it is full. Run `outpost collect` at this broker; or, without one, "
    'set mode = "broker" (`outpost provision`)'
)


class Unheard:
    def __init__(self, client, clock):
        self._client, self._clock = client, clock
        self._seen = self._minutes = self._last = 0
        self._told = 0  # hours that were printed

    def hours(self):
        """Returns the hours without a confirmation. Call it at each measurement."""
        clock, session = self._clock, self._client.session
        now = clock.up_day * _DAY_MINUTES + clock.up_ms // 60_000
        passed = now - self._last
        self._last = now
        outbox = session.outbox
        if session.confirmations != self._seen or outbox.oldest_seq == outbox.next_seq:
            self._seen = session.confirmations
            self._minutes = self._told = 0
        elif session.state == _CONNECTED:
            self._minutes += passed
        return self._tell(self._minutes // 60)

    def _tell(self, hours):
        if hours > self._told:
            self._told = hours
            print(_TOLD)
        return hours


def after_wake(session, interval_ms):
    """Returns for how many hours, at least, a board in deep sleep has held its oldest message, at
    one message per interval. 0: this wake did not connect, or received a confirmation.
    """
    held = session.outbox.next_seq - session.outbox.oldest_seq
    if not held or session.state != _CONNECTED or session.confirmations:
        return 0
    hours = (held - 1) // -(-_HOUR_MS // interval_ms)  # messages an hour, rounded up
    if hours:
        print(_TOLD)
    return hours

"""Reports the board's own health: one reading in a message, at most.

    left_out       blocks of the outbox that failed and are no longer used
    aside          messages that the server would not accept, and that were set aside
    pins_lost      files that reserve blocks of the outbox, found lost since the start
    unheard        hours without a confirmation, in collector mode (`unheard.py`)
    not_published  measurements that were not stored since the start: outbox full, or flash
    unreadable     messages that the flash has lost since the start
    mended         flipped bits survived since the start
    torn           1: a power cut left a torn record at the end of the outbox
    takeovers      connections that another client with this board's id ended, since the start
    ahead          confirmations since the start for messages that the board never sent: another
                   board has its stream, or its flash was restored
    cut_short      how often a series was read without its last samples since the start; only with
                   series
    not_passed     messages set aside since the start because the server acknowledged them and the
                   collector never got them; only in collector mode

A counter that changed is in the next message that is stored. Each one also has a place in 64
messages (number 8 for the first, 16 for the second, ..., then 60, 52, 36, 28). There the first four
are always reported, and the others when they are not 0. So a dropped message or a sleeping board
does not hide a counter for long. Messages with the readings of `flash_wear.py` have none, so none
gets longer than 37 bytes.

Knows the outbox's, the session's and the station's counters by name. Allocation: construction only.
"""

from array import array

from micropython import const

COUNTERS = (
    b"left_out",
    b"aside",
    b"pins_lost",
    b"unheard",
    b"not_published",
    b"unreadable",
    b"mended",
    b"torn",
    b"takeovers",
    b"ahead",
    b"cut_short",
    b"not_passed",
)
# The outbox's names; only one that holds series has the last. "": not from the outbox.
_OF_OUTBOX = const((
    "left_out", "aside", "", "", "", "unreadable", "mended", "sealed_torn", "", "", "cut_short", "",
))  # fmt: skip
_STATES = const(4)  # this many of them are reported even when 0
_REST = const(63)  # as in flash_wear.py
# of each counter, in 64 messages
_PLACES = const(b"\x08\x10\x18\x2c\x20\x28\x30\x38\x3c\x34\x24\x1c")


class Health:
    """A sensor with changing names, as Station requires. pins_lost: callable. Set `station`.

    reported_seq: number of the message that has the last reading; -1: the last read had none.
    """

    station: "Anything" = None
    unheard: "Anything" = None  # an Unheard, in collector mode
    unit, exponent = b"", 0

    def __init__(self, outbox, pins_lost):
        self.name = b""
        self.outbox, self._pins_lost = outbox, pins_lost
        self._reported = array("i", [0] * len(COUNTERS))
        # What the last message reports. When a later message is due, it was stored.
        self.reported_seq, self._index, self._value = -1, 0, 0

    def read(self):
        place = self.outbox.next_seq
        if place != self.reported_seq and self.reported_seq >= 0:
            self._reported[self._index] = self._value
        self.reported_seq = -1
        place &= _REST
        return self._report(self._due(place)) if place else None

    def has_news(self):
        """True when a counter has changed since it was reported."""
        index = len(COUNTERS)
        while index:
            index -= 1
            if self._now(index) != self._reported[index]:
                return True
        return False

    def _due(self, place):
        """Index of the counter to report; -1: none."""
        due = -1
        index = 0
        while index < len(COUNTERS):
            now = self._now(index)
            if now != self._reported[index]:
                return index
            if place == _PLACES[index] and (now or index < _STATES):
                due = index
            index += 1
        return due

    def _report(self, index):
        if index < 0:
            return None
        self.name = COUNTERS[index]
        self.reported_seq, self._index = self.outbox.next_seq, index
        self._value = self._now(index)
        return self._value

    def _now(self, index):
        if _OF_OUTBOX[index]:
            return getattr(self.outbox, _OF_OUTBOX[index], 0)
        if index == 2:
            return self._pins_lost()
        if index == 3:
            return self.unheard.hours() if self.unheard else 0
        if index == 4:
            return self.station.not_published
        if index == 8:
            return self.station.client.takeovers
        return getattr(self.station.client.session, "ahead" if index == 9 else "not_passed", 0)

"""What a board reports of its sensors' faults: one reading in a message, at most.

    NAME.fault     what is wrong with sensor NAME: an index into `guard.FAULTS`; 0: it is well
    NAME.faults    readings of it that failed since the start

A fault that comes, changes or ends is in the next message that is stored. In 64 messages each
sensor of a driver file has a place where it is told in any case, and each sensor that ever failed
another one for the count. When no sensor has a reading, a fault is told in each message: a board
whose only sensor came loose does not fall silent.

A sensor without a reading is left out of the message. Names say whose reading one is, not places:
SenML has no null (a pack with one is refused whole, by our own tools too), and a text in its place
would end in quarantine. So the other readings, and their tables, stay as they were.

Takes the place of `health.py`'s reading in a message, so that none gets longer; knows `guard.Guard`
and Health by their fields. Allocation: construction only.
"""

from micropython import const

_REST = const(63)  # as in flash_wear.py
_FIRST_STATE = const(1)  # first place of the states, and of the counts
_FIRST_COUNT = const(33)


class SensorNotices:
    """A sensor with changing names, as Station wants it."""

    unit, exponent = b"", 0

    def __init__(self, outbox, guards, health):
        self.name = b""
        self.outbox, self._guards, self._health = outbox, guards, health
        self.reported_seq = -1  # the message of the last reading of this one or of Health's
        # What the last message reports: once a later one is due, it was stored.
        self._seq, self._guard, self._value, self._is_count = -1, None, 0, False

    def read(self):
        value = self._read()
        if value is not None:
            self.reported_seq = self.outbox.next_seq
        return value

    def _read(self):
        seq = self.outbox.next_seq
        if self._seq >= 0 and self._seq != seq:
            if self._is_count:
                self._guard.told_count = self._value
            else:
                self._guard.told = self._value
        self._seq = -1
        place = seq & _REST
        if not place:  # flash_wear.py's
            return None
        if place & 1 and self._find(place):
            return self._report(seq)
        # in messages of even numbers first: its own places are even, and a sensor whose fault
        # comes and goes in each message would leave it none
        value = self._health.read()
        self.name = self._health.name
        if value is None and (self._find(place) or self._is_silent(seq)):
            return self._report(seq)
        return value

    def _find(self, place):
        """Whether there is something to tell: then _guard and _is_count say what. A place of 64
        goes before a change, which can wait for the next message."""
        index = len(self._guards)
        found = False
        while index:
            index -= 1
            guard = self._guards[index]
            if place == _FIRST_COUNT + 2 * index and guard.faults:
                self._guard, self._is_count = guard, True
                return True
            if guard.fault != guard.told or self._is_due(guard, place - 2 * index):
                self._guard, self._is_count, found = guard, False, True
        return found

    def _is_due(self, guard, place):
        return place == _FIRST_STATE and (guard.fault or not guard.may_fail_silently())

    def _is_silent(self, seq):
        """Whether no sensor has a reading, and one of them a fault: _guard is one of those."""
        index, found = len(self._guards), False
        while index:
            index -= 1
            guard = self._guards[index]
            if guard.has_values():
                return False
            if guard.fault and (not found or seq % len(self._guards) == index):
                self._guard, self._is_count, found = guard, False, True
        return found

    def _report(self, seq):
        guard = self._guard
        self._seq = seq
        self.name = guard.faults_name if self._is_count else guard.fault_name
        self._value = guard.faults if self._is_count else guard.fault
        return self._value

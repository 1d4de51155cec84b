"""Reports the faults of a board's sensors: one reading in a message, at most.

    NAME.fault     what is wrong with sensor NAME: an index into `guard.FAULTS`; 0: it is well
    NAME.faults    how many of its readings failed since the start

A fault that appears, changes or ends is in the next message that is stored. Each sensor has a place
in 64 messages. There the fault of a sensor with a driver file is always reported, and in every
second 64 messages the count of a sensor that ever failed. When no sensor has a reading, each
message reports a fault, so that a board whose only sensor came loose does not fall silent.

A sensor without a reading is left out of the message. A reading is identified by its name, not by
its place: SenML has no null (a pack with one is refused whole, by our own tools too), and a text in
its place would end in quarantine. So the other readings, and their tables, stay as they were.

Replaces `health.py`'s reading in a message, so that none gets longer. Knows `guard.Guard` and
Health by their fields. Allocation: construction only.
"""

from micropython import const

_REST = const(63)  # as in flash_wear.py
_SECOND = const(64)  # this bit of a message's number: the second 64
# the place of each sensor; health.py and flash_wear.py use none of them
_PLACES_OF_SENSORS = const(b"\x07\x09\x0b\x0d\x0f\x11\x13\x17\x19\x1b\x1d\x1f\x21\x23\x27\x29")


class SensorNotices:
    """A sensor with changing names, as Station requires. reported_seq: number of the last message
    in which it has a reading, its own or health's."""

    unit, exponent = b"", 0

    def __init__(self, outbox, guards, health):
        self.name = b""
        self.outbox, self._guards, self._health = outbox, guards, health
        # What the last message reports. When a later message is due, it was stored.
        self._seq, self._guard, self._value, self._is_count = -1, None, 0, False
        self.reported_seq = -1

    def read(self):
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
        if place & 1 and self._find(seq):
            return self._report(seq)
        # health.py goes first in messages of even numbers, where its places are. Otherwise a sensor
        # whose fault comes and goes in each message would leave it none
        value = self._health.read()
        self.name = self._health.name
        if value is None and (self._find(seq) or self._is_silent(seq)):
            return self._report(seq)
        if value is not None:
            self.reported_seq = seq
        return value

    def _find(self, seq):
        """True when there is something to report, which _guard and _is_count then say. One of the
        64 places precedes a change, which can wait for the next message."""
        index = len(self._guards)
        found = False
        while index:
            index -= 1
            guard = self._guards[index]
            is_place = seq & _REST == _PLACES_OF_SENSORS[index & 15]
            if is_place and seq & _SECOND and guard.faults:
                self._guard, self._is_count = guard, True
                return True
            if guard.fault != guard.told or (is_place and self._is_due(guard)):
                self._guard, self._is_count, found = guard, False, True
        return found

    def _is_due(self, guard):
        return guard.fault or not guard.may_fail_silently()

    def _is_silent(self, seq):
        """True when no sensor has a reading, and one has a fault: _guard is then such a sensor."""
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
        self._seq = self.reported_seq = seq
        self.name = guard.faults_name if self._is_count else guard.fault_name
        self._value = guard.faults if self._is_count else guard.fault
        return self._value

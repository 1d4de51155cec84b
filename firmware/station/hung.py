"""Remembers which sensors never returned from a reading, so that the watchdog reset the board, and
how many starts leave them alone.

The board keeps this across a reset and a sleep (`hung_note`), not in flash: a bit for each sensor,
the level, and the remaining starts. Such a sensor is left alone for 2, 4, ... 64 starts, twice as
many each time it hangs again; in a start that lasts for an hour, up to that hour (`guard.py`). If
one hangs again, the others get their trial in the next start: each has one per round, so one that
always hangs hides none. A sensor that returns is forgotten, and the level with the last.

Loaded only after a sensor hung. Allocation: construction only.
"""

from micropython import const

_SENSORS = const(0xFFFF)
_LEVEL_AT = const(16)
_LEFT_AT = const(19)
_LAST_LEVEL = const(6)


class Hung:
    """kept: the board's hung_note, or None. number: of the sensor that was being read when the
    watchdog reset the board; 0: none was."""

    def __init__(self, kept, number):
        self._kept = kept
        value = kept() if kept else 0
        self._sensors, level, left = value & _SENSORS, value >> _LEVEL_AT & 7, value >> _LEFT_AT
        self.is_due = not number and not left  # in this start they are read again
        if number:
            bit = _bit(number)
            if self._sensors & bit:
                self._sensors, level = bit, min(level + 1, _LAST_LEVEL)
            self._sensors |= bit
            level = max(level, 1)
            left = (1 << level) - 1  # besides this one
        elif left:
            left -= 1
        self._rest = level << _LEVEL_AT | left << _LEFT_AT
        self._keep()

    def has(self, number):
        return bool(self._sensors & _bit(number))

    def forget(self, number):
        """The sensor returned from a reading."""
        self._sensors &= ~_bit(number)
        self._keep()

    def _keep(self):
        if self._kept:
            self._kept(self._rest | self._sensors if self._sensors else 0)


def _bit(number):
    return 1 << (number - 1 & 15)

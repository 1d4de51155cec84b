"""What the desktop needs to say how long a board's flash will last: two readings in every 64th message, beside the sensors'.

`erases` counts the sectors begun since the format. A sector is one erase of one block, but for the first round over blank blocks;
the number is in each sector's header (OUTBOX_FORMAT.md), so it survives any reset. `outbox_blocks` is how many blocks share them.
"""

from micropython import const

_REST = const(63)


class Told:
    """A sensor, as Station wants them. value: callable."""

    unit, exponent, settle_ms = b"", 0, 0

    def __init__(self, name, outbox, value):
        self.name, self._outbox, self._value = name, outbox, value

    def read(self):
        return None if self._outbox.next_seq & _REST else self._value()


def sensors(outbox):
    return [Told(b"erases", outbox, lambda: outbox._sector_no), Told(b"outbox_blocks", outbox, lambda: outbox.blocks)]

"""Reports what the desktop needs to estimate how long a board's flash will last: two readings in
every 64th message, in addition to the sensors'.

`erases` counts the sectors begun since the format. A sector is one erase of one block, except in
the first round over blank blocks. The number is in each sector's header (OUTBOX_FORMAT.md), so it
survives any reset. `outbox_blocks` is how many blocks share the erases.
"""

from micropython import const

_REST = const(63)


class Wear:
    """A reading of the outbox, as Station requires it. value: callable, returns an integer."""

    def __init__(self, name, outbox, value):
        self.name, self.unit, self.exponent = name, b"", 0
        self._outbox, self._value = outbox, value

    def read(self):
        return None if self._outbox.next_seq & _REST else self._value()


def sensors(outbox):
    return [
        Wear(b"erases", outbox, lambda: outbox._sector_no),
        Wear(b"outbox_blocks", outbox, lambda: outbox.blocks),
    ]

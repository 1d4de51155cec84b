"""What the desktop needs to say how long a board's flash will last: two readings in every 64th message, beside the sensors'.

`erases` counts the sectors begun since the format. A sector is one erase of one block, but for the first round over blank blocks;
the number is in each sector's header (OUTBOX_FORMAT.md), so it survives any reset. `outbox_blocks` is how many blocks share them.
"""

from micropython import const
from outpost.chip_sensors import Reading

_REST = const(63)


def sensors(outbox):
    def each_64th(value):
        return lambda: None if outbox.next_seq & _REST else value()

    return [
        Reading(b"erases", b"", 0, each_64th(lambda: outbox._sector_no)),
        Reading(b"outbox_blocks", b"", 0, each_64th(lambda: outbox.blocks)),
    ]

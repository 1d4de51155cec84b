"""A chip in RAM that only copies, without allocating, so that the outbox's own work is measured,
not the simulation's (MicroPython).
"""

from struct import pack_into

from nor_flash import BLOCK_BYTES
from outpost.outbox import Outbox

try:
    from viper_program import program
except (ImportError, AttributeError, SyntaxError):  # CPython: the same, slowly

    def program(target, at, source, count):
        for i in range(count):
            target[at + i] &= source[i]


_PAGE_BYTES = 256


class RamChip:
    """Reads and writes whole pages. pack_into() copies with the interpreter's own C code, and needs
    no slice.
    """

    def __init__(self, blocks):
        self.blocks = blocks
        self.memory = bytearray(b"\xff" * (blocks * BLOCK_BYTES))
        view = memoryview(self.memory)
        self.pages = [view[at:] for at in range(0, blocks * BLOCK_BYTES, _PAGE_BYTES)]
        self.formats = ["%ds" % (n * _PAGE_BYTES) for n in range(BLOCK_BYTES // _PAGE_BYTES + 1)]
        self.blank = b"\xff" * BLOCK_BYTES

    def readblocks(self, block, buf, offset=0):
        pack_into(
            self.formats[len(buf) // _PAGE_BYTES],
            buf,
            0,
            self.pages[(block * BLOCK_BYTES + offset) // _PAGE_BYTES],
        )

    def writeblocks(self, block, buf, offset=0):
        program(self.memory, block * BLOCK_BYTES + offset, buf, len(buf))

    def ioctl(self, op, arg):
        if op == 4:
            return self.blocks
        if op == 5:
            return BLOCK_BYTES
        pack_into(self.formats[-1], self.memory, arg * BLOCK_BYTES, self.blank)
        return 0


def flash_outbox(blocks, chip=None, **options):
    outbox = Outbox(chip or RamChip(blocks), **options)
    outbox.format(b"01234567")
    return outbox

"""A chip in RAM that only copies, so that the outbox's own work is measured and not the simulation's (MicroPython)."""

from nor_flash import BLOCK_BYTES
from outpost.outbox import Outbox


class RamChip:
    def __init__(self, blocks):
        self.blocks = blocks
        self.views = memoryview(bytearray(b"\xff" * (blocks * BLOCK_BYTES)))
        self.blank = b"\xff" * BLOCK_BYTES

    def readblocks(self, block, buf, offset=0):
        at = block * BLOCK_BYTES + offset
        buf[:] = self.views[at : at + len(buf)]

    def writeblocks(self, block, buf, offset=0):
        at = block * BLOCK_BYTES + offset
        self.views[at : at + len(buf)] = buf

    def ioctl(self, op, arg):
        if op == 4:
            return self.blocks
        if op == 5:
            return BLOCK_BYTES
        at = arg * BLOCK_BYTES
        self.views[at : at + BLOCK_BYTES] = self.blank
        return 0


def flash_outbox(blocks, chip=None, **options):
    outbox = Outbox(chip or RamChip(blocks), **options)
    outbox.format(b"01234567")
    return outbox

"""The world's flash as the block device that a program gets: each call costs time.

MicroPython's protocol; writeblocks() without an offset erases first, as littlefs wants it.
"""

from virtual.world import READ_US

_ERASE_BLOCK = 6


class Flash:
    def __init__(self, world):
        self._world = world

    def readblocks(self, block, buf, offset=0):
        self._world.pass_in_flash(READ_US)
        self._world.chip.readblocks(block, buf, offset)

    def writeblocks(self, block, buf, offset=None):
        if offset is None:
            self.ioctl(_ERASE_BLOCK, block)
            offset = 0
        self._world.chip.writeblocks(block, buf, offset)

    def ioctl(self, op, arg):
        return self._world.chip.ioctl(op, arg)

"""The chip of peer_chip.py in a form that is fast on CPython: with slices. CPython's pack_into()
takes only bytes, and a loop would be slow.
"""

import peer_chip
from nor_flash import BLOCK_BYTES


class RamChip(peer_chip.RamChip):
    def readblocks(self, block, buf, offset=0):
        at = block * BLOCK_BYTES + offset
        buf[:] = self.memory[at : at + len(buf)]

    def writeblocks(self, block, buf, offset=0):
        """Bits can only fall."""
        at, count = block * BLOCK_BYTES + offset, len(buf)
        left = int.from_bytes(self.memory[at : at + count], "little") & int.from_bytes(
            buf, "little"
        )
        self.memory[at : at + count] = left.to_bytes(count, "little")

    def ioctl(self, op, arg):
        if op in (4, 5):
            return super().ioctl(op, arg)
        self.memory[arg * BLOCK_BYTES : (arg + 1) * BLOCK_BYTES] = self.blank
        return 0

"""NOR flash in a file: a block device that obeys the rules of the chip and counts what is done to it.

Bits only fall in a program, only an erase of a whole block raises them; a program that would raise one is refused loudly.
A power cut can be set for the n-th program or erase: that operation is left half done in one of five ways, then `on_cut` is
called, which must not return. MicroPython's block-device protocol; a call of whole 256-byte pages takes no heap.
"""

import random

BLOCK_BYTES = 4096
CUT_MODES = ("nothing", "all", "first", "last", "random")


class NorRuleError(Exception):
    """The firmware did what the chip cannot do: a fault of the firmware, never of the data."""


def new_image(path, blocks):
    """An erased chip."""
    erased = b"\xff" * BLOCK_BYTES
    with open(path, "wb") as file:
        for _ in range(blocks):
            file.write(erased)


class NorFlash:
    """file: binary, unbuffered, open for reading and writing, `blocks` * 4,096 bytes long. unit_bytes: program granularity."""

    def __init__(self, file, blocks, unit_bytes=1):
        self._file = file
        self.blocks = blocks
        self.unit_bytes = unit_bytes
        self._old = memoryview(bytearray(BLOCK_BYTES))
        self._views = {length: self._old[:length] for length in range(256, BLOCK_BYTES + 1, 256)}
        self.reads = self.programs = self.erases = self.bytes_programmed = 0
        self.block_erases = [0] * blocks
        self.operations = 0
        self.cut_at = 0  # the operation in which the power goes, 0 = never
        self.cut_mode = "nothing"
        self.on_cut = _never

    def readblocks(self, block, buf, offset=0):
        self._check(block, offset, len(buf))
        self.reads += 1
        self._file.seek(block * BLOCK_BYTES + offset)
        self._file.readinto(buf)

    def writeblocks(self, block, buf, offset=None):
        if offset is None:
            self.ioctl(6, block)
            offset = 0
        self._check(block, offset, len(buf))
        if offset % self.unit_bytes or len(buf) % self.unit_bytes:
            raise NorRuleError(f"program of {len(buf)} bytes at {offset}: not in units of {self.unit_bytes}")
        self.programs += 1
        self.bytes_programmed += len(buf)
        old = self._load(block, offset, len(buf))
        cut = self._cut_now()
        self._and(old, buf, cut)
        self._save(block, offset, old, cut)

    def ioctl(self, op, arg):
        if op == 4:
            return self.blocks
        if op == 5:
            return BLOCK_BYTES
        if op == 6:
            self._check(arg, 0, BLOCK_BYTES)
            self.erases += 1
            self.block_erases[arg] += 1
            old = self._load(arg, 0, BLOCK_BYTES)
            cut = self._cut_now()
            self._raise(old, cut)
            self._save(arg, 0, old, cut)
        return 0

    def _check(self, block, offset, length):
        if not 0 <= block < self.blocks or offset < 0 or offset + length > BLOCK_BYTES:
            raise NorRuleError(f"outside the region: block {block} offset {offset} length {length}")

    def _load(self, block, offset, length):
        if length not in self._views:
            self._views[length] = self._old[:length]
        old = self._views[length]
        self._file.seek(block * BLOCK_BYTES + offset)
        self._file.readinto(old)
        return old

    def _save(self, block, offset, data, cut):
        self._file.seek(block * BLOCK_BYTES + offset)
        self._file.write(data)
        if cut:
            self.on_cut(self.operations, cut)

    def _cut_now(self):
        self.operations += 1
        return self.cut_mode if self.operations == self.cut_at else None

    def _and(self, old, new, cut):
        for i in range(len(new)):
            byte = new[i]
            if byte != 0xFF:
                if old[i] & byte != byte:
                    raise NorRuleError(f"program would raise bits: 0x{old[i]:02x} to 0x{byte:02x}")
                if cut:
                    byte |= _keep(cut, i, len(new))
                old[i] &= byte

    def _raise(self, old, cut):
        for i in range(len(old)):
            old[i] |= _keep(cut, i, len(old)) ^ 0xFF if cut else 0xFF


def _never(operation, mode):
    if operation:
        raise NorRuleError("a cut was ordered, and on_cut is not set")


def _keep(cut, i, length):
    """The bits of byte i of an operation that the cut leaves as they were."""
    if cut == "random":
        return random.getrandbits(8)
    done = cut == "all" or (cut == "first" and i < length // 2) or (cut == "last" and i >= length // 2)
    return 0 if done else 0xFF

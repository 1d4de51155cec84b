"""NOR flash in a file: a block device that enforces the chip's rules and counts the operations.

A program only clears bits, and only the erase of a whole block sets them; a program that would set
one raises NorRuleError. A power cut can be set for the n-th program or erase: that operation is
left unfinished in one of five ways, then `on_cut` is called, which must not return. MicroPython's
block-device protocol; a call with whole 256-byte pages does not allocate.
"""

import random

BLOCK_BYTES = 4096
CUT_MODES = ("nothing", "all", "first", "last", "random")


class NorRuleError(Exception):
    """The firmware tried what the chip cannot do: a fault of the firmware, never of the data."""


def new_image(path, blocks):
    """An erased chip."""
    erased = b"\xff" * BLOCK_BYTES
    with open(path, "wb") as file:
        for _ in range(blocks):
            file.write(erased)


class NorFlash:
    """A block device over a file.

    file: binary, unbuffered, open for reading and writing, `blocks` * 4,096 bytes long.
    unit_bytes: program granularity.
    """

    def __init__(self, file, blocks, unit_bytes=1):
        self._file = file
        self.blocks = blocks
        self.unit_bytes = unit_bytes
        self._old = memoryview(bytearray(BLOCK_BYTES))
        self._views = {length: self._old[:length] for length in range(256, BLOCK_BYTES + 1, 256)}
        self.reads = self.programs = self.erases = self.bytes_programmed = 0
        self.block_erases = [0] * blocks
        self.operations = 0
        self.cut_at = 0  # the operation during which the power is cut, 0 = never
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
        self._check_units(offset, len(buf))
        self.programs += 1
        self.bytes_programmed += len(buf)
        old = self._load(block, offset, len(buf))
        self._change(old, buf)
        self._save(block, offset, old)

    def _check_units(self, offset, length):
        if offset % self.unit_bytes or length % self.unit_bytes:
            raise NorRuleError(
                f"program of {length} bytes at {offset}: not in units of {self.unit_bytes}"
            )

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
            self._change(old, None)
            self._save(arg, 0, old)
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

    def _save(self, block, offset, data):
        self._file.seek(block * BLOCK_BYTES + offset)
        self._file.write(data)
        if self.operations == self.cut_at:
            self.on_cut(self.operations, self.cut_mode)

    def _change(self, old, new):
        """Apply the operation to the bytes: old AND new, or erased (new is None).

        Only partly if the power is cut.
        """
        self.operations += 1
        if self.operations == self.cut_at:
            _half(old, new, self.cut_mode)
        elif new is None:
            _erase(old)
        else:
            _and(old, new)


# Small functions and while loops: a frame of more than 11 words would be allocated, and show in the
# tests of the firmware's heap.


def _and(old, new):
    i = 0
    while i < len(new):
        if new[i] != 0xFF:
            old[i] = _programmed(old[i], new[i])
        i += 1


def _programmed(old, new):
    if old & new != new and new != 0xFF:
        raise NorRuleError(f"program would raise bits: 0x{old:02x} to 0x{new:02x}")
    return old & new


def _erase(old):
    i = 0
    while i < len(old):
        old[i] = 0xFF
        i += 1


def _half(old, new, mode):
    for i in range(len(old)):
        kept = _kept(mode, i, len(old))
        if new is None:
            old[i] |= kept ^ 0xFF
        else:
            old[i] = _programmed(old[i], new[i]) | old[i] & kept


def _never(operation, mode):
    if operation:
        raise NorRuleError("a cut was ordered, but on_cut is not set")


def _kept(mode, i, length):
    """The bits of byte i that an interrupted operation leaves unchanged."""
    if mode == "random":
        return random.getrandbits(8)
    done = (
        mode == "all"
        or (mode == "first" and i < length // 2)
        or (mode == "last" and i >= length // 2)
    )
    return 0 if done else 0xFF

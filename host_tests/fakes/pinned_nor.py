"""A NOR chip in RAM for two users at once, fast enough to be copied thousands of times: littlefs
and the outbox on one device.

`Chip` holds the bytes and cuts the power. `Port` is one user's block device: it counts, and can be
told which blocks belong to others. The rules are those of boards/UNIX/nor_flash.py: a program only
clears bits. If a program of the outbox would set one, it is refused with an error. For littlefs
this happens as on the chip, and is counted: after a cut inside a flush, littlefs checks only one
program unit (32 bytes on ESP32) to decide whether what follows is erased; if it is not, littlefs
finds out by reading back, and takes another block. A cut inside a program of several pages leaves
whole pages before it and erased ones after it, because a chip takes page by page. MicroPython only
(machine code). Read, program and erase do not allocate.
"""
# ruff: noqa: F821 - ptr8 is viper's

import random

import micropython

from fake_flash import PowerCut
from nor_flash import NorRuleError

BLOCK_BYTES = 4096
PAGE_BYTES = 256
_EIO = -5


@micropython.viper
def _copy(target: ptr8, at: int, source: ptr8, start: int, length: int):
    for i in range(length):
        target[at + i] = source[start + i]


@micropython.viper
def _fill(target: ptr8, at: int, length: int):
    for i in range(length):
        target[at + i] = 0xFF


@micropython.viper
def _program(image: ptr8, at: int, data: ptr8, length: int) -> int:
    """Clear bits; returns 1 when some would have to be set."""
    raised = 0
    for i in range(length):
        new = data[i]
        old = image[at + i]
        if new != 0xFF and old & new != new:
            raised = 1
        image[at + i] = old & new
    return raised


@micropython.viper
def _program_part(image: ptr8, at: int, data: ptr8, start: int, end: int):
    for i in range(start, end):
        image[at + i] = image[at + i] & data[i]


@micropython.viper
def _program_randomly(image: ptr8, at: int, data: ptr8, start: int, end: int, seed: int):
    """Clear a random part of the bits that should be cleared."""
    for i in range(start, end):
        seed = (seed * 1103 + 12345) & 0xFFFFFF
        image[at + i] = image[at + i] & (data[i] | (seed >> 8))


@micropython.viper
def _erase_randomly(image: ptr8, at: int, length: int, seed: int):
    """Set a random part of the bits."""
    for i in range(length):
        seed = (seed * 1103 + 12345) & 0xFFFFFF
        image[at + i] = image[at + i] | ((seed >> 8) & 0xFF)


class Chip:
    """blocks * 4,096 bytes. cut_at: the operation, counted from now on, in which the power goes; 0:
    never.
    """

    def __init__(self, blocks, image=None):
        self.blocks = blocks
        self.image = bytearray(image) if image else bytearray(b"\xff" * (blocks * BLOCK_BYTES))
        self.cut_at = 0
        self.cut_mode = "nothing"
        self.is_off = False
        self.raised = 0  # programs that would have to set bits
        self.log = None  # a list takes (block, offset, bytes), or (block, 0, None) for an erase
        self.on_operation = None

    def set_image(self, image):
        """Take the content of another chip of this size, and switch the power on again."""
        _copy(self.image, 0, image, 0, len(image))
        self.is_off = False
        self.cut_at = 0

    def change(self, block, offset, buf):
        """Program buf, or erase the block (buf None). False: the power is off. Counts in `raised`
        what the chip cannot do.
        """
        if self.log is not None:
            self._note(block, offset, buf)
        if self.on_operation:
            self.on_operation()
        if self.is_off or self._power_goes(block, offset, buf):
            return False
        self._do(block * BLOCK_BYTES + offset, buf)
        return True

    def _note(self, block, offset, buf):
        self.log.append((block, offset, None if buf is None else bytes(buf)))

    def _do(self, at, buf):
        if buf is None:
            _fill(self.image, at, BLOCK_BYTES)
        else:
            self.raised += _program(self.image, at, buf, len(buf))

    def _power_goes(self, block, offset, buf):
        if self.cut_at:
            self.cut_at -= 1
            if not self.cut_at:
                self.cut(block, offset, buf, self.cut_mode)
                return True
        return False

    def cut(self, block, offset, buf, mode):
        """Leave this operation half done; from now on the chip does nothing."""
        self.is_off = True
        at = block * BLOCK_BYTES + offset
        if buf is None:
            self._cut_erase(at, mode)
        else:
            self._cut_program(at, buf, mode)

    def _cut_erase(self, at, mode):
        half = BLOCK_BYTES // 2
        if mode == "random":
            _erase_randomly(self.image, at, BLOCK_BYTES, random.getrandbits(20))
        elif mode != "nothing":
            _fill(self.image, at + half * (mode == "last"), BLOCK_BYTES if mode == "all" else half)

    def _cut_program(self, at, buf, mode):
        if mode == "nothing":
            return
        pages = (len(buf) + PAGE_BYTES - 1) // PAGE_BYTES
        start = random.getrandbits(16) % pages * PAGE_BYTES
        end = min(start + PAGE_BYTES, len(buf))
        _program_part(self.image, at, buf, 0, len(buf) if mode == "all" else start)
        half = (start + end) // 2
        if mode == "random":
            _program_randomly(self.image, at, buf, start, end, random.getrandbits(20))
        elif mode == "first":
            _program_part(self.image, at, buf, start, half)
        elif mode == "last":
            _program_part(self.image, at, buf, half, end)


class Port:
    """One user's device over the chip, with its counts.

    unit_bytes: each program must be a multiple of this. forbidden: blocks that this user must not
    change. is_outbox: a power cut raises PowerCut; for littlefs it is the error EIO, which it
    passes on as OSError (no exception may cross its C code).
    """

    def __init__(self, chip, unit_bytes=1, is_outbox=False):
        self.chip = chip
        self.unit_bytes = unit_bytes
        self.is_outbox = is_outbox
        self.forbidden = ()
        self.reads = self.bytes_read = self.programs = self.erases = self.bytes_programmed = 0
        self.block_erases = [0] * chip.blocks

    def readblocks(self, block, buf, offset=0):
        length = len(buf)
        self._check(block, offset, length)
        self.reads += 1
        self.bytes_read += length
        block = block * BLOCK_BYTES + offset
        _copy(buf, 0, self.chip.image, block, length)
        return _EIO if self.chip.is_off else 0

    def writeblocks(self, block, buf, offset=0):
        length = len(buf)
        self._check(block, offset, length)
        self._check_program(block, offset, length)
        self.programs += 1
        self.bytes_programmed += length
        return self._program(block, buf, offset)

    def _program(self, block, buf, offset):
        raised = self.chip.raised
        done = self.chip.change(block, offset, buf)
        if self.is_outbox and self.chip.raised != raised:
            raise NorRuleError("program would raise bits: block %d offset %d" % (block, offset))
        return self._status(done)

    def ioctl(self, op, arg):  # frames of at most 11 words, here and above: larger ones allocate
        if op == 4:
            return self.chip.blocks
        if op == 5:
            return BLOCK_BYTES
        return self._erase(arg) if op == 6 else 0

    def _erase(self, block):
        self._check(block, 0, BLOCK_BYTES)
        self._check_program(block, 0, BLOCK_BYTES)
        self.erases += 1
        self.block_erases[block] += 1
        return self._status(self.chip.change(block, 0, None))

    def _status(self, done):
        if not done and self.is_outbox:
            raise PowerCut()
        return 0 if done else _EIO

    def _check(self, block, offset, length):
        if block < 0 or block >= self.chip.blocks or offset < 0 or offset + length > BLOCK_BYTES:
            raise NorRuleError(
                "outside the chip: block %d offset %d length %d" % (block, offset, length)
            )

    def _check_program(self, block, offset, length):
        if block in self.forbidden:
            raise NorRuleError("block %d is not this user's" % block)
        if offset % self.unit_bytes or length % self.unit_bytes:
            raise NorRuleError(
                "program of %d bytes at %d: not in units of %d" % (length, offset, self.unit_bytes)
            )

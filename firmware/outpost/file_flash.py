"""A file as flash: a block device for an Outbox on a desktop.

    outbox = Outbox(FileFlash("flash.img"))

A process that is killed loses nothing. Of a power cut of the desktop, only what its filesystem
promises is known: the cuts that an outbox survives are those of a NOR chip (OUTBOX_FORMAT.md). To
test a program against those: boards/BENCH. Allocation: each program of flash.
"""

_BLOCK_BYTES = 4096
_COUNT, _SIZE, _ERASE = 4, 5, 6
_ERASED = b"\xff" * _BLOCK_BYTES


class FileFlash:
    """path: made if it is missing, `blocks` * 4,096 bytes long. Raises OSError."""

    def __init__(self, path, blocks=16):
        try:
            self._file = open(path, "r+b")
        except OSError:
            self._file = open(path, "w+b")
            self._file.write(_ERASED * blocks)
        self._file.seek(0, 2)
        self._blocks = self._file.tell() // _BLOCK_BYTES

    def readblocks(self, block, buf, offset=0):
        self._file.seek(block * _BLOCK_BYTES + offset)
        self._file.readinto(buf)

    def writeblocks(self, block, buf, offset=0):
        """As a chip does: a program clears bits, and sets none."""
        there = bytearray(len(buf))
        self.readblocks(block, there, offset)
        self._write(block * _BLOCK_BYTES + offset, bytes([a & b for a, b in zip(there, buf)]))

    def _write(self, at, data):
        self._file.seek(at)
        self._file.write(data)
        self._file.flush()

    def ioctl(self, op, arg):
        if op == _ERASE:
            self._write(arg * _BLOCK_BYTES, _ERASED)
        return {_COUNT: self._blocks, _SIZE: _BLOCK_BYTES}.get(op, 0)

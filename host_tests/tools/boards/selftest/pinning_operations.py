"""Run by test_pinning_time.py under MicroPython: the most flash operations that pinning does
between two of its lines.

Prints "erases pages lines". The filesystem is a board's after `outpost flash`; the second attempt
follows one cut off, the third extends the ring.
"""

import vfs

from fake_flash import PowerCut
from pinned_nor import Chip, Port
from support import pinning

BLOCKS = 352  # of an RPI_PICO
FILES = 40
BYTES = 1200
PAGE_BYTES = 256
PINNED = 64


class Counted:
    """The chip's operations since the last line."""

    def __init__(self, device, raw):
        self._devices = device, raw
        self.most = [0, 0]
        self.lines = 0
        self._last = self._now()

    def _now(self):
        erases = sum([one.erases for one in self._devices])
        return [erases, sum([one.bytes_programmed for one in self._devices]) // PAGE_BYTES]

    def line(self, done, total):
        now = self._now()
        for i in range(2):
            self.most[i] = max(self.most[i], now[i] - self._last[i])
        self.lines += 1
        self._last = now


def main():
    chip = Chip(BLOCKS)
    device, raw = Port(chip, 256), Port(chip, 256, is_outbox=True)
    vfs.VfsLfs2.mkfs(device, progsize=256)
    vfs.mount(vfs.VfsLfs2(device, progsize=256), "/board")
    for i in range(FILES):
        with open("/board/module%d.mpy" % i, "wb") as file:
            file.write(bytes(BYTES))
    counted = Counted(device, raw)

    def stop(done, total):
        if done == 100:
            raise PowerCut()

    try:
        pinning.create(raw, "/board/outbox", PINNED, b"1234567a", b"x", stop)
    except PowerCut:
        pass
    counted.line(0, 0)
    counted.most = [0, 0]
    made = pinning.create(raw, "/board/outbox", PINNED, b"1234567b", b"x", counted.line)
    counted.line(0, 0)
    pinning.grow(made, PINNED, b"1234567c", counted.line)
    counted.line(0, 0)
    print(counted.most[0], counted.most[1], counted.lines)


main()

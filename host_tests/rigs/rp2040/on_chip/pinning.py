# micropython-only: runs on the emulated chip, as main.py
"""What pinning the default 64 blocks takes, and opening them at a start, piece by piece.

.venv/bin/python host_tests/rigs/rp2040/cycles.py --script host_tests/rigs/rp2040/on_chip/pinning.py
"""

import gc
import os

import rp2
from machine import mem32, unique_id

from support import pinned, pinning

MARKER = 0x40058018
BEGIN, END = 1, 2
BLOCKS = 64


class Span:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        print("span " + self.name)
        mem32[MARKER] = BEGIN

    def __exit__(self, *error):
        mem32[MARKER] = END


class Nobody:
    def step(self):
        pass

    cleared = step


def pieces(raw, folder, board):
    os.mkdir(folder)
    pinning._begin(folder, [], [], Nobody())
    marks = {}
    with Span("write the files"):
        for i in range(BLOCKS):
            marks[pinning._write_marked(pinned.path_of(folder, i), b"12345678", i)] = i
    with Span("find their blocks"):
        found = pinning._scan(raw, folder, marks)
    with Span("compare files and blocks"):
        for i in range(BLOCKS):
            pinned.compare(raw, pinned.path_of(folder, i), found[i], 4096)
    with Span("erase the blocks"):
        for i in range(BLOCKS):
            raw.ioctl(6, found[i])
    with Span("times of change"):
        entries = [(i, found[i], pinned.mtime_of(pinned.path_of(folder, i))) for i in range(BLOCKS)]
    with Span("save the map"):
        pinning._save_map(raw, folder, board, entries)


def opening(raw, folder, board):
    gc.collect()
    with Span("open_blocks()"):
        device = pinned.open_blocks(raw, folder, board)
    with Span("its checks of the files"):
        for entry in device.entries:
            pinned._check_file(raw, folder, entry, 256)  # a page, as at a start
    for name in ("watch(), at a start", "watch(), all the files once more"):
        with Span(name):
            for _ in device.entries:
                device.watch()
    with Span("one stat() a file"):
        for number, _, _ in device.entries:
            os.stat(pinned.path_of(folder, number))


def main():
    for _ in range(3):
        with Span("empty"):
            pass
    raw, board = rp2.Flash(), unique_id()
    pieces(raw, "/pieces", board)
    opening(raw, "/pieces", board)
    with Span("look for an earlier outbox"):
        pinning.remains(raw)
    pinning.release("/pieces", force=True)
    with Span("create(), all of it"):
        pinning.create(raw, "/outbox", BLOCKS, b"87654321", board)


main()
print("end of the run")

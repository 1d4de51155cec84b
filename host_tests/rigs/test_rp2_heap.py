# cpython-only: emulates an RP2040
"""What heap.py finds in the chip's memory: a program whose parts are known."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("rp2040py", reason="missing: rp2040py; run `make setup`")

import chip_image
from outpost_tools.boards.files import firmware_build
from rp2040 import heap, image
from rp2040.board import Board, flash_image

BUFFER_BYTES, ITEMS = 5000, 300
FULL = f"""
buffer = bytearray({BUFFER_BYTES})

class Reader:
    def __init__(self):
        self.a_field_of_its_own = self.another_field = 0

    def read(self):
        return self.a_field_of_its_own + self.another_field

readers = [Reader() for _ in range({ITEMS})]
"""
BARE = "def nothing():\n    return None\n"
MAIN = """
import gc
import full
import bare
gc.collect()
print("used", gc.mem_alloc())
while True:
    pass
"""


@pytest.fixture(scope="module")
def measured():
    """(bytes in use by the interpreter's own count, what was read)."""
    interpreter = chip_image.found_or_skip()
    files = {
        f"/{name}.mpy": firmware_build.compiled(text, f"{name}.py", "armv6m")
        for name, text in (("full", FULL), ("bare", BARE))
    }
    files["/main.py"] = MAIN.encode()
    board = Board(flash_image(image.load(interpreter), files, {}))
    found = board.run_for(10, lambda: re.search(r"used (\d+)\r?\n", board.text))
    assert found, board.text
    memory = board.chip.mcu
    read = heap.Heap(memory.sram, memory.flash, interpreter)
    used = int(re.search(r"used (\d+)", board.text)[1])
    yield used, read.parts()
    board.close()


def test_no_byte_is_missing_or_counted_twice(measured):
    used, parts = measured
    assert 0 <= sum(parts.values()) - used <= 512  # what print() took after the count


def test_each_part_belongs_to_its_module(measured):
    _, parts = measured
    blocks = -(-BUFFER_BYTES // heap.BLOCK) * heap.BLOCK
    assert 0 <= parts["full", "buffers"] - blocks <= 2 * heap.BLOCK  # and its object
    # an instance of two fields is two blocks of 16 bytes: itself, and its table
    assert 32 * ITEMS <= parts["full", "instances"] <= 48 * ITEMS
    assert 4 * ITEMS <= parts["full", "tables"] <= 4 * ITEMS + 1000
    assert parts["full", "classes"] > 0 and parts["full", "code"] > 0


def test_a_module_without_them_has_none(measured):
    _, parts = measured
    assert {kind for module, kind in parts if module == "bare"} == {"code", "functions", "tables"}

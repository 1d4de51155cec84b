# micropython-only: CPython has no mem_total
"""A board that takes updates: no heap while none comes, before one and while one waits; what a
message of an update asks for is bounded."""

import gc
import json
import os
import unittest

import micropython

from station.updatable import UpdatableCommands
from station.update_take import Taking
from test_heap_commands import BASE, SETTINGS, TURNS, HeapRig

KEY = "5a" * 32
# in use beside the module itself, while an update of as many files as a board has arrives
MOST_HELD_BYTES = 4096
MOST_PART_BYTES = 16_384  # asked for by a part of a file, most of it garbage at once
FILES = 90
RECORD = {"board": "UNIX", "files": {"/main.py": ["0" * 64]}, "modules": []}


def unlink(path):
    try:
        if os.stat(path)[0] & 0x4000:
            for name in os.listdir(path):
                unlink(path + "/" + name)
            os.rmdir(path)
        else:
            os.remove(path)
    except OSError:
        pass


def list_of(signature):
    """As the desktop makes it; every file differs from what the folder has: nothing."""
    lines = ["outpost-update 2 board-1 UNIX 1 1"]
    lines += ["%s 9 = outpost/module_%d.mpy" % ("0" * 64, number) for number in range(FILES)]
    return "\n".join(lines) + "\n" + signature + "\n"


class TestHeapOfUpdates(HeapRig):
    def make(self, board):
        return UpdatableCommands(board, BASE, dict(SETTINGS, update_key=KEY))

    def setUp(self):
        unlink("update")
        HeapRig.setUp(self)

    def tearDown(self):
        HeapRig.tearDown(self)
        unlink("update")

    def test_idle_takes_nothing(self):
        self.turns(10)
        self.assertEqual(self.turns(TURNS), (0, 0))

    def test_an_update_that_waits_takes_nothing_in_a_turn(self):
        self.turns(10)
        for number in range(3):
            data = b"update 12345678 ask %d" % number
            self.commands._take(data, 0)
            self.turns(20)
            self.assertEqual(self.turns(100), (0, 0))


class TestHeapOfTaking(unittest.TestCase):
    def setUp(self):
        self.tearDown()
        os.mkdir("outpost")
        with open("outpost/installed.json", "w") as file:
            json.dump(RECORD, file)

    def tearDown(self):
        unlink("update")
        unlink("outpost")

    def test_what_arrives_is_not_kept_in_memory(self):
        gc.collect()
        before = gc.mem_alloc()
        taking = Taking(bytes.fromhex(KEY), "board-1", gc.collect)
        text = list_of("0" * 64).encode()
        taking._signed = lambda path, length: "12345678"  # the signature is another test's
        for at in range(0, len(text), 460):
            head = b"update 12345678 list %d %d\n" % (at, len(text))
            taking.take(head + text[at : at + 460])
        self.assertEqual(taking.why, "")
        text = None
        gc.collect()
        held = gc.mem_alloc() - before
        gross = micropython.mem_total()
        taking.take(b"update 12345678 file 89 0\n" + b"x" * 9)
        gross = micropython.mem_total() - gross
        print("%d B held, %d B asked for by a part of a file" % (held, gross))
        self.assertTrue(held < MOST_HELD_BYTES, held)
        self.assertTrue(gross < MOST_PART_BYTES, gross)


if __name__ == "__main__":
    unittest.main()

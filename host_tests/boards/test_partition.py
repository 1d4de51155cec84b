"""The `outbox` partition of an ESP32, over a stand-in for the esp32 module (its Partition:
MicroPython docs, esp32.Partition).
"""

import sys
import unittest

from fake_flash import flash_in_ram
from outpost.outbox import Outbox


class FakePartition:
    TYPE_DATA = 1
    known = {}

    def __init__(self, label, blocks, encrypted):
        self._flash = flash_in_ram(blocks, 32 if encrypted else 1)
        self._info = (1, 0x40, 0x310000, blocks * 4096, label, encrypted)
        self.readblocks, self.writeblocks, self.ioctl = (
            self._flash.readblocks,
            self._flash.writeblocks,
            self._flash.ioctl,
        )

    @classmethod
    def find(cls, kind, label=None):
        return [cls.known[label]] if kind == cls.TYPE_DATA and label in cls.known else []

    def info(self):
        return self._info


class FakeModule:
    Partition = FakePartition


class TestPartition(unittest.TestCase):
    def setUp(self):
        sys.modules["esp32"] = FakeModule
        FakePartition.known = {
            "outbox": FakePartition("outbox", 8, False),
            "secret": FakePartition("secret", 4, True),
            "tiny": FakePartition("tiny", 1, False),
        }

    def tearDown(self):
        del sys.modules["esp32"]

    def test_the_partition_is_used_as_it_is(self):
        from support import partition

        for label, blocks, align in (("outbox", 8, 4), ("secret", 4, 32)):
            device, found_align, page_bytes = partition.find(label)
            outbox = Outbox(device, align=found_align, page_bytes=page_bytes)
            self.assertEqual(
                (outbox.format(b"01234567"), outbox.blocks, found_align), (0, blocks, align)
            )
            for _ in range(300):
                self.assertEqual(outbox.append(b"t", bytes(100), 100), 0)
                outbox.discard(outbox.next_seq - 1)

    def test_no_partition_and_one_that_is_too_small(self):
        from support import partition

        self.assertEqual(partition.find("nothing"), None)
        with self.assertRaises(ValueError):
            partition.find("tiny")


if __name__ == "__main__":
    unittest.main()

"""The chip of the cut model behaves as the page says: `firmware/PROOF.md`, "The chip"."""

import unittest

from virtual.chip import ERASE_WAYS, PROGRAM_WAYS, Chip, ChipRuleError, PowerCut

DATA = bytes(range(1, 33))


def chip(**options):
    return Chip(2, 1, 64, **options)


def read(device, length=32, block=0):
    buf = bytearray(length)
    device.readblocks(block, buf)
    return bytes(buf)


def cut_program(way):
    device = chip()
    device.cut_at, device.cut_way = 1, way
    try:
        device.writeblocks(0, DATA)
    except PowerCut:
        return device
    raise AssertionError("the power did not go")


class TestChip(unittest.TestCase):
    def test_bits_fall_in_a_program_and_rise_in_an_erase(self):
        device = chip()
        device.writeblocks(0, DATA)
        self.assertEqual(read(device), DATA)
        device.ioctl(6, 0)
        self.assertEqual(read(device), b"\xff" * 32)

    def test_a_byte_is_not_programmed_twice(self):
        device = chip()
        device.writeblocks(0, DATA)
        with self.assertRaises(ChipRuleError):
            device.writeblocks(0, b"\0", 31)
        device.writeblocks(0, b"\xff\xff\0", 30 + 0)  # FF leaves cells as they are

    def test_each_way_leaves_bits_between_old_and_new(self):
        wrong = ("extra bits",)
        for way in PROGRAM_WAYS:
            device = cut_program(way)
            for face in (device.data[0], device.other[0] or device.data[0]):
                raised = [new & ~old for new, old in zip(DATA, face)]
                self.assertTrue(way in wrong or not any(raised), way)
                self.assertEqual(face[32:], b"\xff" * 32, way)

    def test_a_hole_lacks_the_middle_and_has_the_end(self):
        left = read(cut_program("hole"))
        self.assertEqual((left[:12], left[-8:]), (DATA[:12], DATA[-8:]))
        self.assertEqual(left[12:-8], b"\xff" * 12)

    def test_zeros_come_before_an_erase(self):
        device = chip()
        device.writeblocks(0, DATA)
        device.cut_at, device.cut_way = 1, "zeros"
        with self.assertRaises(PowerCut):
            device.ioctl(6, 0)
        self.assertEqual(read(device, 64), bytes(64))

    def test_unstable_cells_read_as_either_until_the_erase(self):
        device = cut_program("unstable")
        device.view = 4
        self.assertTrue(len({read(device) for _ in range(20)}) > 10)
        self.assertFalse(device.is_settled())
        device.ioctl(6, 0)
        self.assertTrue(device.is_settled())
        self.assertEqual({read(device) for _ in range(20)}, {b"\xff" * 32})

    def test_bad_blocks(self):
        device = chip()
        device.bad[0], device.bad[1] = "deaf", "refusing"
        device.writeblocks(0, DATA)
        self.assertEqual(read(device), b"\xff" * 32)
        with self.assertRaises(OSError):
            device.writeblocks(1, DATA)

    def test_a_call_to_the_driver_fails_before_or_after_its_work(self):
        for way, left in (("before", b"\xff" * 32), ("after", DATA)):
            device = chip()
            device.fail_call, device.fail_way = 2, way
            read(device)
            with self.assertRaises(OSError):
                device.writeblocks(0, DATA)
            self.assertEqual(read(device), left)

    def test_an_erase_and_a_program_share_the_common_ways(self):
        common = set(PROGRAM_WAYS) & set(ERASE_WAYS)
        self.assertTrue({"nothing", "all", "random", "unstable"} <= common)


if __name__ == "__main__":
    unittest.main()

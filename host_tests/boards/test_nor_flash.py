"""The simulated chip keeps the rules that the outbox is tested against."""

import unittest

from fake_flash import PowerCut, flash_in_ram, image_of
from nor_flash import CUT_MODES, NorRuleError


class TestNorFlash(unittest.TestCase):
    def test_bits_only_fall_until_the_block_is_erased(self):
        flash = flash_in_ram(2)
        flash.writeblocks(1, b"\x0f", 10)
        flash.writeblocks(1, b"\xff\x03", 10)  # 0xFF leaves a byte as it is
        with self.assertRaises(NorRuleError):
            flash.writeblocks(1, b"\x1f", 10)
        self.assertEqual(image_of(flash)[4096 + 10], 0x0F)
        flash.ioctl(6, 1)
        self.assertEqual(image_of(flash), b"\xff" * 8192)
        self.assertEqual((flash.programs, flash.erases, flash.block_erases), (3, 1, [0, 1]))

    def test_addresses_and_units_are_checked(self):
        flash = flash_in_ram(2, 256)
        for block, length, offset in (
            (2, 256, 0),
            (-1, 256, 0),
            (0, 256, 4096),
            (0, 8192, 0),
            (0, 100, 0),
            (0, 256, 3),
        ):
            with self.assertRaises(NorRuleError):
                flash.writeblocks(block, bytes(length), offset)
        with self.assertRaises(NorRuleError):
            flash.ioctl(6, 2)

    def test_a_cut_leaves_the_operation_half_done(self):
        expected = {
            "nothing": b"\xff" * 8,
            "all": bytes(8),
            "first": bytes(4) + b"\xff" * 4,
            "last": b"\xff" * 4 + bytes(4),
        }
        for mode in CUT_MODES:
            flash = flash_in_ram(2)
            flash.cut_at, flash.cut_mode = 1, mode
            with self.assertRaises(PowerCut):
                flash.writeblocks(0, bytes(8), 0)
            if mode in expected:
                self.assertEqual(image_of(flash)[:8], expected[mode])

    def test_a_cut_in_an_erase_leaves_some_of_the_old(self):
        kept = {"nothing": 4096, "all": 0, "first": 2048, "last": 2048}
        for mode in CUT_MODES:
            flash = flash_in_ram(2, image=bytes(8192))
            flash.cut_at, flash.cut_mode = 1, mode
            with self.assertRaises(PowerCut):
                flash.ioctl(6, 0)
            if mode in kept:
                self.assertEqual(image_of(flash)[:4096].count(b"\0"), kept[mode])

    def test_an_ordered_cut_without_a_handler_is_loud(self):
        flash = flash_in_ram(2)
        flash.cut_at, flash.on_cut = 1, type(flash)(flash._file, 2).on_cut
        with self.assertRaises(NorRuleError):
            flash.ioctl(6, 0)


if __name__ == "__main__":
    unittest.main()

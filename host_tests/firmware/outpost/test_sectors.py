"""The bytes of a sector, one by one: what must be erased is, what was programmed reads back, and no
address is outside of the block.
"""

import unittest

from fake_flash import image_of, looking
from faulty_flash import FaultyFlash, faulty, loaded, payload_of, publish
from outpost import status
from outpost.outbox import Outbox


def programmed(messages):
    """(flash, where the last record ends)."""
    flash = faulty(2)
    outbox = Outbox(flash, 64)
    assert outbox.format(b"01234567") == status.OK
    publish(outbox, messages, 40)
    return flash, outbox._offset


class TestRest(unittest.TestCase):
    def test_one_bit_anywhere_behind_the_records_seals_the_sector(self):
        """The first look begins in the middle of a page, the others where one begins."""
        for messages in (1, 4, 9):
            flash, end = programmed(messages)
            pages = [page for page in range(512, 4096, 256) if page >= end]
            for at in list(range(end, 4096, 61)) + pages:
                flash.put(at, b"\xfe")
                outbox = looking(Outbox)(flash, 64)
                self.assertEqual((outbox.mount(), outbox.sealed_torn), (status.OK, 1), at)
                self.assertEqual(outbox.next_seq, messages, at)
                flash.put(at, b"\xff")
            outbox = Outbox(flash, 64)
            self.assertEqual((outbox.mount(), outbox.sealed_torn), (status.OK, 0))


class Stubborn(FaultyFlash):
    """The next program leaves a bit of the byte at `at` erased that was to be 0."""

    at = -1

    def writeblocks(self, block, buf, offset=None):
        if self.at >= 0:
            buf = bytearray(buf)
            buf[self.at] |= buf[self.at] + 1 & 0xFF
            self.at = -1
        FaultyFlash.writeblocks(self, block, buf, offset)


class TestHeader(unittest.TestCase):
    def test_a_bit_that_did_not_take_is_noticed_wherever_it_is(self):
        for at in range(32):
            flash = faulty(3, kind=Stubborn)
            outbox = Outbox(flash)
            self.assertEqual(outbox.format(b"01234567"), status.OK)
            while outbox.reserve(400) == status.OK and not outbox._head:
                publish(outbox)
            flash.at = at
            publish(outbox)
            self.assertEqual((outbox.storage_errors, outbox.left_out), (1, 0), at)
            self.assertEqual(Outbox(flash).mount(), status.OK)

    def test_one_that_was_mended_takes_records_behind_it(self):
        for bit in range(0, 8 * 32, 7):
            flash, end = programmed(1)
            flash.put(bit >> 3, bytes((image_of(flash)[bit >> 3] ^ 1 << (bit & 7),)))
            outbox = looking(Outbox)(flash, 64)
            self.assertEqual((outbox.mount(), outbox.mended), (status.OK, 1), bit)
            publish(outbox, 1, 40)
            self.assertEqual((outbox.storage_errors, outbox._head), (0, 0), bit)
            self.assertEqual(outbox._offset, 2 * end - 32, bit)


class TestAddresses(unittest.TestCase):
    """rp2.Flash erases and programs whatever it is asked to."""

    def test_no_program_crosses_the_end_of_the_block(self):
        flash, _ = programmed(1)
        outbox = Outbox(flash, 64)
        outbox.mount()
        outbox._offset = 4096 - 16
        with self.assertRaises(ValueError):
            outbox._write_record(1, 20)

    def test_no_erase_of_another_block(self):
        flash, _ = programmed(1)
        outbox = Outbox(flash, 64)
        for block in (-1, 2):
            with self.assertRaises(ValueError):
                outbox._erase(block)
        self.assertEqual(outbox.erases, 0)


class TestGeometry(unittest.TestCase):
    def test_the_largest_record_that_a_block_holds_and_no_larger_one(self):
        for align, most in ((4, 4064), (64, 4032), (256, 3840)):
            outbox = Outbox(faulty(3), most, align)
            self.assertEqual(outbox.format(b"01234567"), status.OK)
            publish(outbox, 2, most - 17)
            self.assertEqual((outbox._offset, outbox.load(1)), (4096, status.OK))
            self.assertEqual(loaded(outbox), payload_of(1, most - 17))
            with self.assertRaises(ValueError):
                Outbox(faulty(3), most + 1, align)

    def test_the_buffer_has_the_pages_that_a_record_may_touch(self):
        for align, record_bytes, page_bytes, expected in (
            (4, 512, 256, 768), (256, 512, 256, 768), (4, 260, 256, 512), (4, 261, 256, 768),
            (4, 4064, 256, 4352), (4, 64, 4096, 8192),
        ):  # fmt: skip
            outbox = Outbox(faulty(3), record_bytes, align, page_bytes)
            self.assertEqual(len(outbox.buffer), expected)


if __name__ == "__main__":
    unittest.main()

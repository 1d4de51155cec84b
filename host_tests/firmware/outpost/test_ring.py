"""The ring of sectors beside the outbox's promises: what is counted, remembered and answered when a
block fails, and when erasing ahead has nothing to do.
"""

import unittest

from fake_flash import flash_in_ram
from nor_flash import NorFlash
from outpost import status
from outpost.outbox import Outbox

ERASE = 6


class FailingFlash(NorFlash):
    """Raises at the next `erases_fail` erases; takes no program of `block` while it `is_fresh`;
    calls `at_erase` before each erase. The byte at `stuck_at` has a bit that an erase leaves 0."""

    erases_fail = 0
    stuck_at = -1
    block = -1
    is_fresh = True
    at_erase = None

    def writeblocks(self, block, buf, offset=None):
        if block == self.block and self.is_fresh:
            self.is_fresh = False
        else:
            NorFlash.writeblocks(self, block, buf, offset)

    def ioctl(self, op, arg):
        if op != ERASE:
            return NorFlash.ioctl(self, op, arg)
        if self.at_erase:
            self.at_erase()
        if self.erases_fail:
            self.erases_fail -= 1
            raise OSError(5)
        result = NorFlash.ioctl(self, op, arg)
        if self.stuck_at // 4096 == arg:
            self._file.seek(self.stuck_at)
            self._file.write(b"\x7f")
        return result


def formatted(blocks):
    flash = FailingFlash(flash_in_ram(blocks)._file, blocks, 1)
    outbox = Outbox(flash)
    assert outbox.format(b"01234567") == status.OK
    return flash, outbox


def publish(outbox, count=1):
    for _ in range(count):
        assert outbox.append(b"t", bytes(400), 400) == status.OK


class TestFailures(unittest.TestCase):
    def test_a_block_that_fails_once_a_round_stays(self):
        """Each time it is used again at once, and does."""
        for block in range(3):
            flash, outbox = formatted(3)
            flash.block = block
            for _ in range(100):
                publish(outbox)
                outbox.discard(outbox.oldest_seq)
                if outbox._head != block:
                    flash.is_fresh = True
            self.assertTrue(outbox.storage_errors > 2, block)
            self.assertEqual(outbox.left_out, 0, block)

    def test_an_erase_that_fails_is_counted_and_tried_again(self):
        flash, outbox = formatted(3)
        publish(outbox)
        flash.erases_fail = 1
        self.assertTrue(outbox.erase_ahead())
        self.assertEqual((outbox.storage_errors, outbox.left_out, outbox.erases), (1, 0, 2))

    def test_an_error_of_the_driver_while_it_looks_ahead_is_counted(self):
        flash, outbox = formatted(3)
        publish(outbox, 20)
        outbox.discard_through(19)

        def fails(*_):
            raise OSError(5)

        flash.readblocks = fails
        self.assertEqual((outbox.erase_ahead(), outbox.storage_errors), (False, 1))
        del flash.readblocks
        self.assertTrue(outbox.erase_ahead())

    def test_one_byte_that_stays_is_enough_to_leave_a_block_out(self):
        for at in (0, 1, 4095):
            flash, outbox = formatted(4)
            publish(outbox)
            flash.stuck_at = 4096 + at
            self.assertFalse(outbox.erase_ahead())
            self.assertEqual((outbox.left_out, outbox._out), (1, (1,)), at)


class TestNothingToErase(unittest.TestCase):
    def test_a_ring_that_is_worn_out(self):
        flash, outbox = formatted(2)
        publish(outbox)
        flash.erases_fail = 100
        outbox.erase_ahead()
        outbox.discard(0)
        erases = outbox.erases
        self.assertEqual((outbox.erase_ahead(), outbox.erases), (False, erases))

    def test_a_call_from_inside_of_an_erase_is_refused(self):
        flash, outbox = formatted(3)
        publish(outbox)
        answers = []
        flash.at_erase = lambda: answers.append(outbox.append(b"t", b"inner", 5))
        self.assertTrue(outbox.erase_ahead())
        self.assertEqual(answers, [status.BUSY])
        self.assertEqual(outbox.next_seq, 1)


if __name__ == "__main__":
    unittest.main()

"""The ring of sectors beside the outbox's promises: what is counted, remembered and answered when a
block fails, and when erasing ahead has nothing to do.
"""

import unittest

from faulty_flash import ERASE, LENGTH, FaultyFlash, faulty, formatted, publish
from outpost import status


class FailingFlash(FaultyFlash):
    """Calls `at_erase` before each erase. The byte at `stuck_at` has a bit that an erase leaves
    0."""

    stuck_at = -1
    at_erase = None

    def ioctl(self, op, arg):
        if op == ERASE and self.at_erase:
            self.at_erase()
        result = FaultyFlash.ioctl(self, op, arg)
        if op == ERASE and self.stuck_at // 4096 == arg:
            self.put(self.stuck_at, b"\x7f")
        return result


def failing(blocks):
    return formatted(flash=faulty(blocks, kind=FailingFlash))


class TestFailures(unittest.TestCase):
    def test_a_block_that_fails_once_a_round_stays(self):
        """Each time it is used again at once, and does."""
        for block in range(3):
            flash, outbox = formatted(3)
            flash.lost, flash.programs_lost = block, 1
            for _ in range(100):
                publish(outbox)
                outbox.discard(outbox.oldest_seq)
                if outbox._head != block:
                    flash.programs_lost = 1
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
            flash, outbox = failing(4)
            publish(outbox)
            flash.stuck_at = 4096 + at
            self.assertFalse(outbox.erase_ahead())
            self.assertEqual((outbox.left_out, outbox._out), (1, (1,)), at)

    def test_no_message_is_passed_over_from_a_block_that_was_left_out(self):
        """Nothing is read of the sector between, so the place to read from is still in a block that
        the ring leaves out. The sector after it is the newest one, not the next."""
        flash, outbox = formatted(4)
        publish(outbox, 5)
        for seq in range(5):
            outbox.load(seq)
            outbox.discard(seq)
        number = outbox.next_seq
        self.assertEqual((outbox.load(number), outbox._head), (status.EMPTY, 0))
        while outbox._head != 2:  # records that are no messages fill the sector between
            self.assertEqual(outbox.append(b"", b"", 0, 2), status.OK)
        while outbox._head != 3 or 4096 - outbox._offset > LENGTH + 64:
            publish(outbox)
        flash.erases_fail = 2
        publish(outbox)
        self.assertEqual((outbox._out, outbox._head), ((0,), 1))
        self.assertEqual((outbox.load(number), outbox.loaded_seq), (status.OK, number))


class TestNothingToErase(unittest.TestCase):
    def test_a_ring_that_is_worn_out(self):
        flash, outbox = formatted(2)
        publish(outbox)
        flash.erases_fail = 100
        outbox.erase_ahead()
        outbox.discard(0)
        erases = outbox.erases
        self.assertEqual((outbox.erase_ahead(), outbox.erases), (False, erases))

    def test_mount_tries_a_ring_that_was_worn_out_anew(self):
        """A driver that fails for a while is no worn flash."""
        flash, outbox = formatted(2)
        publish(outbox)
        flash.erases_fail = 100
        outbox.erase_ahead()
        self.assertTrue(outbox._is_worn_out)
        flash.erases_fail = 0
        self.assertEqual(outbox.mount(), status.OK)
        outbox.discard(0)
        self.assertTrue(outbox.erase_ahead())

    def test_a_call_from_inside_of_an_erase_is_refused(self):
        flash, outbox = failing(3)
        publish(outbox)
        answers = []
        flash.at_erase = lambda: answers.append(outbox.append(b"t", b"inner", 5))
        self.assertTrue(outbox.erase_ahead())
        self.assertEqual(answers, [status.BUSY])
        self.assertEqual(outbox.next_seq, 1)


if __name__ == "__main__":
    unittest.main()

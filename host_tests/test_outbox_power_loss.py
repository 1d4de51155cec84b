"""The outbox's promise at every flash operation: short form. The long one: `make power-loss`."""

import unittest

import power_loss
from fake_flash import PowerCut, flash_in_ram
from outpost.outbox import Outbox

STEPS = 40


class NoCrc(Outbox):
    """Mutant: believes any record whose length fits."""

    def _record_valid(self, block, offset, salt):
        at = Outbox._record_valid(self, block, offset, salt)
        if at >= 0 or offset + 16 > 4096:
            return at
        at = self._read(block, offset)
        size = self._record_size
        return at if self.buffer[at] < 0x80 and offset + size <= 4096 and at + size <= len(self.buffer) else -1


class NoSeal(Outbox):
    """Mutant: appends behind a torn record."""

    def _rest_is_blank(self, block, offset):
        return (block == self._head and offset > 32) or Outbox._rest_is_blank(self, block, offset)


class ErasesEarly(Outbox):
    """Mutant: takes the two oldest messages for acknowledged when it looks for a block to erase."""

    def _is_free(self, block):
        oldest = self.oldest_seq
        self.oldest_seq = min(self.next_seq, oldest + 2)
        free = Outbox._is_free(self, block)
        self.oldest_seq = oldest
        return free


class TrustsBlank(Outbox):
    """Mutant: takes the next block for erased after a boot."""

    def _find_tail(self):
        Outbox._find_tail(self)
        self._ready = (self._head + 1) % self.blocks


class TestPowerLoss(unittest.TestCase):
    def test_nothing_promised_is_lost_and_nothing_is_invented(self):
        cuts, second_cuts, duplicates = power_loss.hunt(STEPS, seed=1)
        print("%d cuts, %d second cuts, at most %d duplicates after one" % (cuts, second_cuts, duplicates))
        self.assertTrue(cuts > 1000 and second_cuts > 100)

    def test_each_mutant_is_caught(self):
        for mutant in (NoCrc, NoSeal, ErasesEarly, TrustsBlank):
            with self.subTest(mutant=mutant.__name__):
                self.assertTrue(self._is_caught(mutant))

    def _is_caught(self, mutant):
        for seed in range(6):
            try:
                power_loss.hunt(STEPS, seed, mutant)
            except Exception:  # a Violation, or the chip's NorRuleError
                return True
        return False

    def test_cut_in_format_leaves_a_region_that_can_be_formatted(self):
        for mode in ("nothing", "all", "first", "last", "random"):
            for operation in (1, 2):
                flash = flash_in_ram(4)
                flash.cut_at, flash.cut_mode = operation, mode
                with self.assertRaises(PowerCut):
                    Outbox(flash).format(b"01234567")
                outbox = Outbox(flash)
                if outbox.mount() != 0:
                    self.assertEqual(outbox.format(b"89abcdef"), 0)
                self.assertEqual(outbox.append(b"t", b"x", 1), 0)


if __name__ == "__main__":
    unittest.main()

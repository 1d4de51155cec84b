# slow: half a minute and more
"""The outbox's promise at every flash operation: short form. The long one: `make power-loss`."""

import unittest

import power_loss
from fake_flash import PowerCut, flash_in_ram, looking
from nor_flash import NorFlash
from outpost.memory import u32
from outpost.outbox import Outbox
from virtual.chip import ChipRuleError

STEPS = 8


class NoCrc(Outbox):
    """Mutant: believes any record whose length fits."""

    def _fits(self, at, salt):
        return Outbox._fits(self, at, salt) or (
            self.buffer[at] < 0x80 and at + self._record_size <= self._filled
        )


class NoSeal(Outbox):
    """Mutant: appends after a torn record."""

    def _rest_is_blank(self, block, offset):
        return (block == self._head and offset > 32) or Outbox._rest_is_blank(self, block, offset)


class ErasesEarly(Outbox):
    """Mutant: takes the eight oldest messages for acknowledged when it needs a block to erase."""

    def _is_free(self, block):
        oldest = self.oldest_seq
        self.oldest_seq = min(self.next_seq, oldest + 8)
        free = Outbox._is_free(self, block)
        self.oldest_seq = oldest
        return free


class TrustsBlank(Outbox):
    """Mutant: takes the next block for erased after a boot."""

    def mount(self):
        status = Outbox.mount(self)
        self._ready = (self._head + 1) % self.blocks
        return status


class SavesLate(Outbox):
    """Mutant: acknowledges in RAM what it then takes for written down."""

    def save_state(self):
        return 0


class NoReadBack(Outbox):
    """Mutant: believes that an erase and a program took."""

    def _clear(self, block):
        self._erase(block)
        return True

    def _write_record(self, first, size):
        start = self._offset
        Outbox._write_record(self, first, size)
        self._has_header = True
        self._offset = start + size
        return True


class NoSalt(Outbox):
    """Mutant: the CRC says nothing about the place, and an erase is believed."""

    _clear = NoReadBack._clear

    def _fits(self, at, salt):
        return Outbox._fits(self, at, 0)

    def _put_header(self):
        Outbox._put_header(self)
        self._true_salt, self._salt = self._salt, self.next_seq  # their XOR is the seed

    def _is_header(self, magic):
        """Whatever header is there is taken for the one that was written."""
        found = Outbox._is_header(self, magic)
        if found and not self._has_header:
            self._salt = u32(self.buffer, 28)
        return found

    def _write_record(self, first, size):
        """What reads back with a valid CRC is taken for what was written."""
        self._true_salt, self._salt = self._salt, self.next_seq
        start = self._offset
        taken = Outbox._write_record(self, first, size)
        self._salt = self._true_salt
        self._filled = len(self.buffer)
        if not taken and self._has_header and self._fits(self.topic_at - 12, 0):
            self._offset = start + size
            return True
        return taken


class DeadBlock(NorFlash):
    """A chip whose block 1, worn out, takes neither program nor erase once it was written."""

    def writeblocks(self, block, buf, offset=None):
        if block != 1 or self.block_erases[1] < 3:
            NorFlash.writeblocks(self, block, buf, offset)

    def ioctl(self, op, arg):
        if op == 6 and arg == 1 and self.block_erases[1] >= 2:
            self.block_erases[1] += 1
            return 0
        return NorFlash.ioctl(self, op, arg)


def lost_over_a_dead_block(outbox_class):
    """Messages that append() returned OK for, and a reset at once after it does not find. All of
    one length and content.
    """
    flash = DeadBlock(flash_in_ram(3)._file, 3)
    Outbox(flash).format(b"01234567")
    outbox = outbox_class(flash)
    outbox.mount()
    lost = 0
    for _ in range(120):
        if outbox.append(b"t", bytes(380), 380) == 0:
            seq = outbox.next_seq - 1
            fresh = looking(NoSalt if outbox_class is NoSalt else Outbox)(flash)
            lost += fresh.mount() != 0 or seq not in power_loss.contents(fresh)
            outbox.discard(seq - 3)
    return lost


class TestPowerLoss(unittest.TestCase):
    def test_nothing_promised_is_lost_and_nothing_is_invented(self):
        total = power_loss.hunt(STEPS, seed=1, geometries=power_loss.GEOMETRIES[:5])
        print(
            "%d cuts, %d second, %d third, %d errors of the driver, at most %d duplicates"
            % (
                total.cuts,
                total.second_cuts,
                total.third_cuts,
                total.errors,
                total.most_duplicates,
            )
        )
        self.assertTrue(total.cuts > 700 and total.second_cuts > 100 and total.errors > 20)
        self.assertTrue(len(total.kinds) > 30, "each way of the cut model")

    def test_each_mutant_is_caught(self):
        for mutant in (NoCrc, NoSeal, ErasesEarly, TrustsBlank, SavesLate):
            with self.subTest(mutant=mutant.__name__):
                self.assertTrue(self._is_caught(mutant))

    def _is_caught(self, mutant):
        for seed in range(6):
            try:
                power_loss.hunt(40, seed, mutant, geometries=power_loss.GEOMETRIES[:4])
            except (power_loss.Violation, ChipRuleError):
                return True
        return False

    def test_a_worn_out_block_is_noticed_thanks_to_read_back_and_salt(self):
        self.assertEqual(lost_over_a_dead_block(Outbox), 0)
        for mutant in (NoReadBack, NoSalt):
            self.assertTrue(lost_over_a_dead_block(mutant) > 0, mutant.__name__)

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

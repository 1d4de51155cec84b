# long: thousands of cases
"""The newest of each topic is kept over power cuts, resets, bad blocks and drivers that raise, and
of what another policy left.
"""

import unittest

import power_loss  # noqa: F401 - on CPython a faster CRC
from fake_flash import PowerCut, flash_in_ram, image_of
from faulty_flash import Dying, FaultyFlash, faulty
from filled_outbox import WithoutSpare, everything, made, newest_of
from nor_flash import CUT_MODES, NorFlash
from outpost import status
from outpost.flash.shelf import lend_block, take_back
from outpost.policies import NewestPerTopic

RARE = [b"r/%d/" % number + b"-" * 200 for number in range(4)]


def about_to_rescue(**options):
    """(chip, number of the next message): the next one opens a block, so that the oldest sector,
    which has the newest of RARE, is written again."""
    blocks = options.pop("blocks", 8)
    flash, outbox = made(NewestPerTopic, blocks, topics=5 if blocks > 4 else 4, **options)
    for payload in (b"old.", b"new."):
        for topic in RARE[: 4 if blocks > 4 else 3]:
            outbox.append(topic, payload, 4)
            outbox.append(b"", b"", 0, 2)  # a state record
    number = 0
    while True:
        image = image_of(flash)
        outbox.append(b"often", b"%04d" % number + bytes(300), 304)
        if outbox.dropped:
            return flash_in_ram(blocks, flash.unit_bytes, image), number
        number += 1


class TestNewestAfterFaults(unittest.TestCase):
    def check_goes_on(self, outbox, number):
        """40 more are stored, and of no topic the newest is lost."""
        topics = len(outbox._newest) - 1
        for newest in range(number, number + 40):
            payload = b"%04d" % newest + bytes(300)
            self.assertEqual(outbox.append(b"often", payload, 304), status.OK)
        wanted = dict([(topic, b"new.") for topic in RARE[:topics]])
        wanted[b"often"] = b"%04d" % (number + 39)
        self.assertEqual(newest_of(outbox), wanted)
        self.assertEqual(outbox.unreadable, 0)

    def mounted(self, flash, **options):
        options["topics"] = 5 if flash.blocks > 4 else 4
        outbox = NewestPerTopic(flash, **options)
        self.assertEqual(outbox.mount(), status.OK)
        return outbox

    def test_a_cut_in_each_operation_while_it_is_written_again(self):
        for options in ({}, {"blocks": 4}, {"align": 256}):
            flash, number = about_to_rescue(**options)
            options.pop("blocks", 0)
            image, operations = image_of(flash), 9
            for at in range(1, operations):
                for mode in CUT_MODES:
                    flash = flash_in_ram(flash.blocks, flash.unit_bytes, image)
                    outbox = self.mounted(flash, **options)
                    flash.cut_at, flash.cut_mode = flash.operations + at, mode
                    try:
                        outbox.append(b"often", b"%04d" % number + bytes(300), 304)
                    except PowerCut:
                        pass
                    flash.cut_at = 0
                    self.check_goes_on(self.mounted(flash, **options), number)

    def test_a_program_that_is_lost_while_it_is_written_again(self):
        for after in range(6):
            flash, number = about_to_rescue()

            class Losing(FaultyFlash):
                left = after

                def writeblocks(self, block, buf, offset=None):
                    self.left -= 1
                    self.programs_lost = self.left == -1
                    FaultyFlash.writeblocks(self, block, buf, offset)

            outbox = self.mounted(faulty(8, image_of(flash), Losing))
            self.check_goes_on(outbox, number)
            self.assertEqual(outbox.storage_errors, 1)

    def test_a_block_that_takes_no_program_is_left_out(self):
        flash, number = about_to_rescue()
        flash = faulty(8, image_of(flash))
        outbox = self.mounted(flash)
        flash.lost, flash.programs_lost = outbox._after(outbox._head), 99
        self.check_goes_on(outbox, number)
        self.assertEqual((outbox.left_out, outbox._out), (1, (flash.lost,)))

    def test_a_driver_that_raises_while_it_is_written_again(self):
        for kind in ("reads_fail", "programs_fail", "erases_fail"):
            for count in range(1, 4):
                flash, number = about_to_rescue()
                flash = faulty(8, image_of(flash))
                outbox = self.mounted(flash)
                setattr(flash, kind, count)
                for _ in range(count):
                    answer = outbox.append(b"often", b"%04d" % number + bytes(300), 304)
                    self.assertTrue(answer in (status.OK, status.STORAGE), answer)
                self.check_goes_on(outbox, number)

    def test_what_the_flash_lost_of_the_oldest_sector_is_counted(self):
        for place in (40, 300, 3700):
            flash, _ = about_to_rescue()
            image = bytearray(image_of(flash))
            for bit in range(3):
                image[place + bit] ^= 1
            outbox = self.mounted(flash_in_ram(8, 256, bytes(image)))
            held = len(everything(outbox))
            for _ in range(40):
                self.assertEqual(outbox.append(b"often", bytes(304), 304), status.OK)
            accounted = len(everything(outbox)) + outbox.dropped
            self.assertEqual((accounted, outbox.unreadable), (held + 40, 1), place)

    def test_a_ring_of_three_holds_a_sector_and_the_head(self):
        _, outbox = made(NewestPerTopic, 4, topics=4)
        for number in range(100):
            self.assertEqual(outbox.append(b"often", bytes(300), 300), status.OK)
            if not number:
                self.assertEqual(outbox.shelf().put(0), status.OK)
            self.assertTrue(len(everything(outbox)) >= min(number + 1, 12))

    def test_the_shelf_takes_the_last_spare_block(self):
        flash = Dying(flash_in_ram(4, 256)._file, 4, 256)
        outbox = NewestPerTopic(flash, topics=4)
        outbox.format(b"01234567")
        flash.dead = (1,)
        outbox.append(b"rare", b"once" + bytes(296), 300)
        while not outbox.left_out:
            self.assertEqual(outbox.append(b"often", bytes(300), 300), status.OK)
        self.assertEqual(outbox.shelf().put(1), status.OK)
        for _ in range(40):
            self.assertEqual(outbox.append(b"often", bytes(300), 300), status.OK)
        self.assertEqual(newest_of(outbox)[b"rare"], b"once")

    def test_with_few_blocks_left_it_answers(self):
        for dead in ((1, 2, 3, 5, 6), (1, 2, 3, 5, 6, 7)):
            flash = Dying(flash_in_ram(8, 256)._file, 8, 256)
            outbox = NewestPerTopic(flash, topics=20)
            outbox.format(b"01234567")
            flash.dead = dead
            answers = [outbox.append(b"t/%02d" % (n % 20), bytes(480), 480) for n in range(40)]
            stored = answers.count(status.OK)
            self.assertEqual(stored + answers.count(status.FULL), 40)
            self.assertTrue(stored < 40, dead)
            self.assertEqual(outbox.left_out, len(dead))
            self.assertEqual(len(everything(outbox)) + outbox.dropped, stored)

    def test_a_refusal_costs_no_erase_until_something_has_changed(self):
        """Every message is the newest of its topic: to write them again makes no room."""
        flash = Dying(flash_in_ram(8, 256)._file, 8, 256)
        outbox = NewestPerTopic(flash, topics=20)
        outbox.format(b"01234567")
        flash.dead = (1, 2, 3, 5, 6)
        number = 0
        while outbox.append(b"t/%02d" % number, bytes(480), 480) == status.OK:
            number += 1
        held, erases = everything(outbox), outbox.erases
        self.assertEqual((len(held), number), (16, 16))
        for _ in range(20):
            self.assertEqual(outbox.append(b"t/16", bytes(480), 480), status.FULL)
        self.assertEqual((outbox.erases, everything(outbox)), (erases, held))
        self.assertEqual((outbox.refused, outbox.dropped), (21, 0))
        # one was acknowledged out of order, and its room is in the middle
        self.assertTrue(outbox.discard(outbox.oldest_seq + 3))
        self.assertEqual(outbox.append(b"t/16", bytes(480), 480), status.OK)
        self.assertEqual(outbox.append(b"t/17", bytes(480), 480), status.FULL)
        erases = outbox.erases
        self.assertEqual(outbox.append(b"t/17", bytes(480), 480), status.FULL)
        self.assertEqual((outbox.erases, len(everything(outbox))), (erases, 16))

    def test_a_refusal_reads_the_oldest_sector_once(self):
        """And the cursor is in it no more: number 1 is found, not the one behind it."""
        flash = Dying(flash_in_ram(8, 256)._file, 8, 256)
        outbox = NewestPerTopic(flash, topics=20)
        outbox.format(b"01234567", False, 1)
        flash.dead = (1, 2, 3, 5, 6, 7)
        answer, number, reads = status.OK, 0, 0
        while answer == status.OK:
            before = flash.reads
            answer = outbox.append(b"t/%02d" % number, bytes(480), 480)
            reads, number = flash.reads - before, number + 1
        self.assertEqual((answer, outbox.oldest_seq), (status.FULL, 1))
        self.assertTrue(reads < 10, reads)
        self.assertEqual((outbox.load(0), outbox.loaded_seq), (status.OK, 1))

    def test_each_message_released_counts_for_a_refusal_in_whatever_order(self):
        _, outbox = made(NewestPerTopic, 8, topics=20)
        for number in range(12):
            self.assertEqual(outbox.append(b"t/%02d" % number, b"", 0), status.OK)
        for count, seq in enumerate((4, 1, 2, 9, 0, 8, 3, 5)):
            self.assertFalse(count and outbox._is_stuck(1), seq)
            self.assertTrue(outbox._is_stuck(0), seq)  # a round made no room
            self.assertTrue(outbox._is_stuck(1), seq)
            self.assertEqual(outbox._stuck[1], count, seq)
            self.assertTrue(outbox.discard(seq))

    def test_a_refusal_is_over_when_a_lent_block_comes_back(self):
        _, outbox = made(NewestPerTopic, 8, topics=20)
        outbox.append(b"t/00", bytes(480), 480)
        lent = [lend_block(outbox) for _ in range(4)]
        number = 1
        while outbox.append(b"t/%02d" % number, bytes(480), 480) == status.OK:
            number += 1
        for _ in range(3):
            self.assertEqual(outbox.append(b"t/16", bytes(480), 480), status.FULL)
        take_back(outbox, lent[0])
        self.assertEqual(outbox.append(b"t/16", bytes(480), 480), status.OK)
        self.assertEqual((outbox.dropped, len(everything(outbox))), (0, number + 1))

    def test_near_the_last_number_nothing_gets_one_beyond(self):
        last = (1 << 30) - 2
        for before in (3, 40, 300, 600):
            flash = flash_in_ram(4, 256)
            outbox = NewestPerTopic(flash, topics=4)
            self.assertEqual(outbox.format(b"01234567", False, last - before), status.OK)
            for topic in RARE[:3]:
                outbox.append(topic, b"new.", 4)
            answers = [outbox.append(b"often", bytes(300), 300) for _ in range(before + 60)]
            self.assertEqual(answers[-1], status.FULL, before)
            self.assertTrue(outbox.next_seq <= last + 1, before)
            numbers = [number for number, _, _ in everything(outbox)]
            self.assertTrue(numbers[-1] <= last, before)
            for topic in RARE[: min(3, before)]:
                self.assertEqual(newest_of(outbox)[topic], b"new.")
            again = self.mounted(flash)
            self.assertEqual([number for number, _, _ in everything(again)], numbers)
            # the server acknowledges all: the last numbers are used, then another stream begins
            for _ in range(600):
                again.discard_through(again.next_seq - 1)
                self.assertEqual(again.append(b"often", bytes(300), 300), status.OK)
            self.assertTrue(again.stream != b"01234567" and again.next_seq < last)

    def test_the_last_copies_leave_a_number_for_the_message_itself(self):
        """The oldest sector has the newest of every topic that is told apart: as many numbers."""
        last = (1 << 30) - 2
        for before in range(40, 60):
            outbox = NewestPerTopic(flash_in_ram(4, 256), topics=4)
            self.assertEqual(outbox.format(b"01234567", False, last - before), status.OK)
            for topic in RARE:
                self.assertEqual(outbox.append(topic, b"new.", 4), status.OK)
            answers = [outbox.append(b"often", bytes(300), 300) for _ in range(before)]
            self.assertEqual(answers[-1], status.FULL, before)
            self.assertTrue(outbox.next_seq <= last + 1, before)


class TestNewestAfterMount(unittest.TestCase):
    def test_is_known_again(self):
        flash, _ = about_to_rescue()
        outbox = NewestPerTopic(flash, topics=5)
        self.assertEqual((outbox.mount(), outbox.loaded_seq), (status.OK, -1))
        for _ in range(40):
            self.assertEqual(outbox.append(b"often", bytes(304), 304), status.OK)
        newest = newest_of(outbox)
        self.assertEqual([newest.get(topic) for topic in RARE], [b"new."] * 4)

    def test_the_newest_is_proved_once_before_it_is_shown(self):
        for count in (1, 2, 5):
            flash, outbox = made(NewestPerTopic, 8, topics=4)
            for _ in range(count):
                outbox.append(b"t", b"", 0)
            outbox = NewestPerTopic(flash, topics=4)
            before = flash.operations
            self.assertEqual(outbox.mount(), status.OK)
            after = flash.operations
            self.assertTrue(after > before, count)
            outbox = NewestPerTopic(flash, topics=4)
            self.assertEqual(outbox.mount(), status.OK)
            self.assertEqual((outbox.load(count - 1), outbox.loaded_seq), (status.OK, count - 1))
            self.assertEqual(flash.operations, after)

    def test_a_driver_that_raises_while_it_learns_is_a_status(self):
        class Raising(NorFlash):
            raises_at = 0

            def readblocks(self, block, buf, offset=0):
                NorFlash.readblocks(self, block, buf, offset)
                if self.reads == self.raises_at:
                    raise OSError(5)

        flash, _ = about_to_rescue()
        flash = Raising(flash._file, 8, 256)
        outbox = NewestPerTopic(flash, topics=5)
        outbox.mount()
        flash.reads = 0
        outbox.mount()  # it is sure of the newest now, and reads only
        for at in range(1, flash.reads + 1):
            flash.raises_at, flash.reads = at, 0
            self.assertEqual(outbox.mount(), status.STORAGE, at)
            self.assertEqual(outbox.append(b"t", b"", 0), status.BUSY)
        self.assertEqual(outbox.mount(), status.OK)

    def test_filled_under_another_policy_to_the_last_block(self):
        flash, outbox = made(WithoutSpare, 8)
        outbox.append(b"rare", b"once" + bytes(296), 300)
        while outbox.next_seq < 7 * 12 + 2:
            self.assertEqual(outbox.append(b"often", bytes(300), 300), status.OK)
        outbox = NewestPerTopic(flash, topics=4)
        outbox.mount()
        for _ in range(100):
            self.assertEqual(outbox.append(b"often", bytes(300), 300), status.OK)
        self.assertEqual(newest_of(outbox)[b"rare"], b"once")

    def test_filled_under_another_policy_with_its_newest_in_the_oldest_sectors(self):
        """Without a block for the copies it refuses, and drops nothing that it must keep. It goes
        on when a message was released."""
        for blocks_filled, answer in ((7, status.OK), (8, status.FULL)):
            flash, outbox = made(WithoutSpare, 8, record_bytes=2040)
            for number in range(2 * blocks_filled):
                topic = b"t/%d" % (number // 2 if number % 2 == 0 and number < 10 else 4)
                payload = b"%04d" % number + bytes(2010)
                size = 2014 - number % 2 * 50  # a sector has room for a large one and a small one
                self.assertEqual(outbox.append(topic, payload, size), status.OK)
            outbox = NewestPerTopic(flash, record_bytes=2040, topics=5)
            outbox.mount()
            before = newest_of(outbox)
            self.assertEqual(outbox.append(b"t/4", bytes(2014), 2014), answer)
            if answer == status.OK:
                before[b"t/4"] = bytes(4)
            self.assertEqual(newest_of(outbox), before)
            if answer:
                outbox.discard_through(outbox.oldest_seq + 7)
                self.assertEqual(outbox.append(b"t/4", bytes(2014), 2014), status.OK)


if __name__ == "__main__":
    unittest.main()

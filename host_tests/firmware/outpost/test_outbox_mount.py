"""What mount() makes of a region: counters, a second mount of the same object, headers that read
differently each time, a first record that was torn in any block.
"""

import unittest

from fake_flash import image_of, looking
from faulty_flash import ERASE, FaultyFlash, faulty, formatted, publish
from outpost import status
from outpost.outbox import Outbox


def state_of(outbox):
    return outbox.next_seq, outbox.oldest_seq, outbox._head


class TestAgain(unittest.TestCase):
    """The same object, mounted once more."""

    def test_its_counters_begin_anew(self):
        names = ("refused", "dropped", "unreadable", "damaged", "sealed_torn")
        for name in names:
            _, outbox = formatted()
            publish(outbox)
            setattr(outbox, name, 7)
            self.assertEqual(outbox.mount(), status.OK)
            self.assertEqual([getattr(outbox, one) for one in names], [0] * 5, name)

    def test_a_read_that_fails_is_a_status_and_counted(self):
        flash, outbox = formatted()
        publish(outbox)
        flash.reads_fail = 1
        self.assertEqual((outbox.mount(), outbox.storage_errors), (status.STORAGE, 1))
        self.assertEqual(outbox.append(b"t", b"", 0), status.BUSY)
        self.assertEqual((outbox.mount(), outbox.next_seq), (status.OK, 1))

    def test_no_block_counts_as_one_that_failed_before(self):
        flash, outbox = formatted(6)
        publish(outbox)
        outbox._leave_out(5)
        self.assertEqual(outbox.mount(), status.OK)
        for block in range(1, 4):
            flash.lost, flash.programs_lost = block, 1
            while outbox._head != block:
                publish(outbox)
            self.assertEqual((flash.programs_lost, outbox.left_out), (0, 0), block)

    def test_the_device_is_told_which_block_is_written_first(self):
        flash, outbox = formatted()
        publish(outbox, 10)
        owned = []
        flash.own = owned.append
        self.assertEqual(outbox.mount(), status.OK)
        self.assertEqual(owned, [outbox._head])


class TestDamage(unittest.TestCase):
    def test_each_place_in_the_newest_sector_is_counted(self):
        """Of five records some have a flipped bit; neighbours are one place."""
        for count, records in ((1, (1,)), (2, (0, 2)), (1, (1, 2)), (1, (4,)), (2, (1, 4))):
            flash, outbox = formatted()
            publish(outbox, 5)
            for record in records:
                at = 32 + 420 * record + 100
                flash.put(at, bytes((image_of(flash)[at] ^ 1,)))
            again = Outbox(flash)
            self.assertEqual(again.mount(), status.OK)
            self.assertEqual((again.damaged, again.next_seq), (count, 5), records)


class TestNewest(unittest.TestCase):
    """The newest record does not check: did a bit of it flip, or was it torn?"""

    def _written(self, length, kind=1):
        """(flash, where the last record begins, its bytes without padding)."""
        flash, outbox = formatted()
        publish(outbox, 2)
        at = outbox._offset
        assert outbox.append(b"topic", b"\x5a" * length, length, 0x10 | kind) == status.OK
        return flash, at, 12 + 5 + length + 4

    def _mounted(self, flash, places):
        """(next_seq, damaged, sealed_torn) with these bits turned."""
        image = bytearray(image_of(flash))
        for place in places:
            image[place >> 3] ^= 1 << (place & 7)
        outbox = Outbox(faulty(flash.blocks, bytes(image)))
        self.assertEqual(outbox.mount(), status.OK)
        return outbox.next_seq, outbox.damaged, outbox.sealed_torn

    def test_one_flipped_bit_of_a_message_uses_its_number(self):
        for length, step in ((0, 3), (3, 5), (60, 41), (255, 211), (256, 223), (480, 409)):
            flash, at, size = self._written(length)
            for place in list(range(0, 8 * size, step)) + list(range(8 * size - 40, 8 * size, 3)):
                found = self._mounted(flash, [8 * at + place])
                self.assertEqual(found, (3, 1, 1), (length, place))

    def test_more_bits_or_a_state_record_use_none(self):
        for length in (20, 300):
            flash, at, size = self._written(length)
            for bit in range(8 * 12, 8 * size - 11, 131):
                found = self._mounted(flash, [8 * at + bit, 8 * at + bit + 9])
                self.assertEqual(found, (2, 0, 1), (length, bit))
            for end in range(12, size, 1 + size // 9):  # what is behind it is not there
                image = bytearray(image_of(flash))
                image[at + end : at + size] = b"\xff" * (size - end)
                outbox = Outbox(faulty(flash.blocks, bytes(image)))
                self.assertEqual((outbox.mount(), outbox.next_seq), (status.OK, 2), end)
            flash, at, size = self._written(length, 2)
            for bit in range(2, 8 * size, 151):
                found = self._mounted(flash, [8 * at + bit])
                self.assertEqual(found, (2, 0, 1), (length, bit))

    def _second_sector(self):
        """The first one has a copy of its header at its end."""
        flash, outbox = formatted()
        while not outbox._head:
            publish(outbox)
        return flash, outbox

    def test_one_flipped_bit_behind_the_first_message_of_a_sector_loses_neither(self):
        flash, outbox = self._second_sector()
        publish(outbox)
        found = self._mounted(flash, [8 * (4096 + outbox._offset - 40)])
        self.assertEqual(found, (outbox.next_seq, 1, 1))

    def test_lengths_that_say_the_end_of_the_block_or_more(self):
        flash, outbox = self._second_sector()
        while (rest := 4096 - outbox._offset) > 500:
            publish(outbox)
        length, seq = rest - 12 - 5 - 4, outbox.next_seq
        self.assertEqual(outbox.append(b"topic", b"\x5a" * length, length), status.OK)
        self.assertEqual(self._mounted(flash, [8 * (8192 - 40)]), (seq + 1, 1, 1))
        for more in range(1, 10):  # torn in its first bytes
            image = bytearray(image_of(flash))
            at = 8192 - rest
            image[at + 2 : at + 4] = (length + more).to_bytes(2, "little")
            image[at + 8 : 8192] = b"\xff" * (rest - 8)
            outbox = Outbox(faulty(4, bytes(image)))
            self.assertEqual((outbox.mount(), outbox.next_seq), (status.OK, seq), more)

    def test_lengths_that_say_the_end_of_the_buffer_or_more(self):
        flash, outbox = self._second_sector()
        at, seq = outbox._offset, outbox.next_seq
        for end in range(len(outbox.buffer) - 8, len(outbox.buffer) + 4):
            image = bytearray(image_of(flash))
            length = end - at % 256 - 12
            image[4096 + at : 4096 + at + 4] = b"\x11\x00" + length.to_bytes(2, "little")
            again = Outbox(faulty(4, bytes(image)))
            self.assertEqual((again.mount(), again.next_seq), (status.OK, seq), end)

    def test_the_only_record_leaves_the_header_in_doubt(self):
        flash, _ = self._second_sector()
        for place in (0, 100):
            image = bytearray(image_of(flash))
            image[4096 + place] ^= 1 if place else 0
            again = looking(Outbox)(faulty(4, bytes(image)))
            self.assertEqual((again.mount(), again._doubt & 2), (status.OK, 2))


class ZeroingFlash(FaultyFlash):
    """Of the blocks in `dead` an erase leaves zeros."""

    dead = ()

    def ioctl(self, op, arg):
        result = FaultyFlash.ioctl(self, op, arg)
        if op == ERASE and arg in self.dead:
            self.put(4096 * arg, bytes(4096))
        return result


class DeafFlash(FaultyFlash):
    """The blocks in `dead` take no erase and no program, and tell of neither."""

    dead = ()

    def ioctl(self, op, arg):
        return 0 if op == ERASE and arg in self.dead else FaultyFlash.ioctl(self, op, arg)

    def writeblocks(self, block, buf, offset=None):
        if block not in self.dead:
            FaultyFlash.writeblocks(self, block, buf, offset)


class TestRing(unittest.TestCase):
    def test_blocks_with_an_old_sector_that_the_ring_passed_stay_out(self):
        """Else the sectors behind them would seem to be out of order, and their messages lost."""
        for dead in ((2,), (2, 3), (0, 3), (1, 3)):
            flash, outbox = formatted(flash=faulty(6, kind=DeafFlash))
            publish(outbox, 5)
            while outbox.next_seq < 80 or outbox._head != 4:
                publish(outbox)
                if outbox.next_seq == 50:  # each block has a sector
                    flash.dead = dead
                outbox.discard_through(outbox.next_seq - 10)
            again = Outbox(flash)
            self.assertEqual(again.mount(), status.OK)
            self.assertEqual((sorted(again._out), again.left_out), (list(dead), len(dead)))
            for seq in range(again.oldest_seq, again.next_seq):
                self.assertEqual((again.load(seq), again.loaded_seq), (status.OK, seq), dead)

    def test_blocks_without_a_header_that_the_ring_passed_stay_out(self):
        for dead in ((2,), (2, 3), (0, 3), (1, 3)):
            flash, outbox = formatted(flash=faulty(6, kind=ZeroingFlash))
            publish(outbox, 5)
            flash.dead = dead
            while outbox.next_seq < 80 or outbox._head != 4:
                publish(outbox)
                outbox.discard_through(outbox.next_seq - 4)
            again = Outbox(flash)
            self.assertEqual(again.mount(), status.OK)
            self.assertEqual((sorted(again._out), again.left_out), (list(dead), len(dead)))

    def test_of_two_blocks_without_a_sector_the_one_with_another_header_is_bad(self):
        """One was left out, the other has lost its sector. Erased, it is not the bad one."""
        other = faulty(2)
        self.assertEqual(Outbox(other).format(b"89abcdef"), status.OK)
        strange, torn, erased = image_of(other)[:4096], bytes(4096), b"\xff" * 4096
        for bad in range(1, 6):
            flash, outbox = formatted(9)
            outbox._out = (bad,)
            while outbox._head < 7:
                publish(outbox)
            for at_bad, at_lost, out in (
                (strange, torn, 0), (torn, strange, 1), (strange, erased, 0), (erased, strange, 1),
                (erased, torn, 1), (torn, erased, 0), (erased, erased, -1),
            ):  # fmt: skip
                flash.put(4096 * bad, at_bad)
                flash.put(4096 * (bad + 1), at_lost)
                again = Outbox(flash)
                self.assertEqual(again.mount(), status.OK)
                self.assertEqual(again._out, () if out < 0 else (bad + out,), (bad, out))

    def test_one_that_lost_its_header_and_one_that_is_erased_stay_in(self):
        for lost in range(6):
            flash, outbox = formatted(6)
            while outbox.next_seq < 80 or outbox._head != 5:
                publish(outbox)
                outbox.discard_through(outbox.next_seq - 30)
            outbox.erase_ahead()
            if lost != outbox._head:
                flash.put(4096 * lost, bytes(4096))
            again = Outbox(flash)
            self.assertEqual((again.mount(), again._out, again.left_out), (status.OK, (), 0), lost)

    def test_a_header_that_was_taken_too_late_leaves_its_block_out_and_no_other(self):
        """Its program failed, so earlier firmware gave the next block the same number. It holds no
        message, and the ring tries it again. Of sectors that have lost their header only the
        messages are missing."""
        for torn in ((), (3,), (2, 3)):
            flash, outbox = formatted(7)
            while outbox._head < 5:
                publish(outbox)
            flash.put(4096 * 4, image_of(flash)[4096 * 5 :][:32])
            for block in torn:
                flash.put(4096 * block, bytes(4096))
            again = Outbox(flash)
            self.assertEqual((again.mount(), again._out), (status.OK, ()), torn)
            self.assertEqual((again.load(0), again.oldest_seq), (status.OK, 0), torn)

    def test_such_a_header_among_older_sectors_leaves_out_its_block_alone(self):
        """The sector after it has that number, too, and its messages."""
        flash, outbox = formatted(8)
        while outbox._head < 6:
            publish(outbox)
        flash.put(4096 * 4, image_of(flash)[4096 * 5 :][:32] + b"\xff" * 4064)
        numbers = range(outbox.next_seq)
        before = {outbox.loaded_seq for seq in numbers if outbox.load(seq) == status.OK}
        again = Outbox(flash)
        self.assertEqual((again.mount(), again._out, again.left_out), (status.OK, (4,), 1))
        there = {again.loaded_seq for seq in numbers if again.load(seq) == status.OK}
        self.assertEqual((there, len(there) > 40), (before, True))

    def test_of_two_sectors_with_one_number_the_later_one_is_the_newest(self):
        """Wherever the ring is. Earlier firmware stored the first message again, as the first
        program did not read back. Those after it would be lost."""
        for head in range(4):
            flash, outbox = formatted(4)
            while outbox.next_seq < 60 or outbox._head != head:
                publish(outbox)
                outbox.discard_through(outbox.next_seq - 2)
            publish(outbox)
            size = 32 + 420  # the header, and one record
            earlier = image_of(flash)[4096 * head :][:size] + b"\xff" * (4096 - size)
            flash.put((head - 1) % 4 * 4096, earlier)
            again = Outbox(flash)
            self.assertEqual((again.mount(), again._head), (status.OK, head))
            self.assertEqual(again.next_seq, outbox.next_seq, head)

    def test_a_sector_of_another_stream_is_passed_however_little_they_differ(self):
        """Else its messages would be sent, in place of those that the flash has lost."""
        for stream in (b"11234567", b"01234568"):
            flash, outbox = formatted(4)
            while outbox._head < 2:
                publish(outbox)
            other = faulty(4)
            foreign = Outbox(other)
            self.assertEqual(foreign.format(stream), status.OK)
            publish(foreign, 3)
            flash.put(3 * 4096, image_of(other)[:4096])
            flash.put(0, b"\xff" * 4096)
            again = Outbox(flash)
            self.assertEqual((again.mount(), again.load(0)), (status.OK, status.OK))
            self.assertTrue(again.loaded_seq > 3, stream)

    def test_the_oldest_sector_is_the_one_that_begins_with_the_oldest_message(self):
        _, outbox = formatted(6)
        publish(outbox, 5)
        firsts = []
        while outbox._head < 4:
            head = outbox._head
            publish(outbox)
            if outbox._head != head:
                firsts.append((outbox._head, outbox.next_seq - 1))
        for block, seq in firsts:
            outbox.discard_through(seq - 1)
            self.assertEqual(outbox.save_state(), status.OK)
            again = Outbox(outbox._device)
            self.assertEqual((again.mount(), again.oldest_seq), (status.OK, seq))
            self.assertEqual(again._tail, block)

    def test_what_was_freed_in_ram_and_erased_is_not_held(self):
        flash, outbox = formatted(3)
        while outbox._head < 2:
            publish(outbox)
        outbox.discard_through(outbox.next_seq - 4)
        self.assertTrue(outbox.erase_ahead())
        again = Outbox(flash)
        self.assertEqual(again.mount(), status.OK)
        self.assertEqual((again.load(0), again.unreadable), (status.OK, 0))
        self.assertEqual(again.oldest_seq, again.loaded_seq)


class TestUnsureHeaders(unittest.TestCase):
    def test_a_header_alone_counts_behind_another_stream_and_not_behind_its_own(self):
        """It is what format() has written so far, or what a cut has left of a first record."""
        other = faulty(5)
        outbox = Outbox(other)
        self.assertEqual(outbox.format(b"89abcdef"), status.OK)
        while outbox._head < 3:
            publish(outbox)
        header = image_of(other)[3 * 4096 :][:32]
        for is_own in (False, True):
            flash = other
            if not is_own:
                flash, outbox = formatted(5)
                while outbox._head < 2:
                    publish(outbox)
            for block in (0, 1):
                flash.put(4096 * block, b"\xff" * 4096)
            flash.put(3 * 4096, header + b"\xff" * 4064)
            again = Outbox(flash)
            self.assertEqual((again.mount(), again._head), (status.OK, 2 if is_own else 3))
            self.assertEqual(again.stream, b"89abcdef")

    def test_one_that_reads_differently_each_time_is_torn(self):
        """Of every block in turn: what the sectors before it hold is there."""
        for head, kind in ((head, kind) for head in range(1, 4) for kind in range(3)):
            flash, outbox = formatted(5)
            while outbox._head != head - 1 or outbox.reserve(400) or outbox._head != head:
                publish(outbox)
            before = outbox.next_seq
            publish(outbox)
            at = 4096 * (head - 1)
            flash.changed, flash.changed_after = head, 1
            flash.changed_at, flash.changed_as = (
                (0, bytes(8)), (12, bytes(8)), (0, image_of(flash)[at : at + 32]),
            )[kind]  # fmt: skip
            again = looking(Outbox)(flash)
            self.assertEqual((again.mount(), again._head), (status.OK, head - 1), (head, kind))
            self.assertTrue(again.next_seq >= before, (head, kind))

    def test_a_first_record_that_was_torn_leaves_the_sector_before_it_the_head(self):
        """In a ring of each size, in each block of it."""
        for blocks in range(2, 7):
            flash, outbox = formatted(blocks)
            for _ in range(12 * blocks):
                was = state_of(outbox)
                publish(outbox)
                if outbox._head != was[2]:
                    torn = bytearray(image_of(flash))
                    at = 4096 * outbox._head
                    torn[at + 100 : at + 4096] = b"\xff" * 3996  # the header is whole
                    again = Outbox(faulty(blocks, bytes(torn)))
                    self.assertEqual(again.mount(), status.OK)
                    found = state_of(again)
                    self.assertEqual((found[0], found[2]), (was[0], was[2]), (blocks, was))
                outbox.discard(outbox.oldest_seq)


if __name__ == "__main__":
    unittest.main()

# long: thousands of cases
"""The shelf of messages set aside on a chip with faults, and where blocks are few: what put() and
release() said is so after every mount, and no block is lost to the ring.
"""

import binascii
import struct
import unittest

import power_loss  # noqa: F401 - on CPython a faster CRC
from fake_flash import PowerCut, flash_in_ram, image_of
from faulty_flash import ERASE, Dying, FaultyFlash, faulty
from nor_flash import CUT_MODES, NorFlash
from outpost import status
from outpost.outbox import Outbox
from outpost.policies import DropOldest
from outpost.state_note import NotedOutbox
from test_shelf import BLOCKS, STREAM, fill, formatted, loaded, mounted, on_shelf, payload_of


def crc(data, start=0):
    return binascii.crc32(data, start) & 0x3FFFFFFF


def aside_in(blocks=BLOCKS, count=4, kind=FaultyFlash):
    """(chip, outbox) with `count` messages, all of them aside."""
    flash = faulty(blocks, kind=kind)
    outbox = Outbox(flash, 1024)
    assert outbox.format(STREAM) == status.OK
    fill(outbox, count)
    for seq in range(count):
        assert outbox.shelf().put(seq) == status.OK
    return flash, outbox


def fill_up(outbox):
    while outbox.append(b"t/0", payload_of(0), 900) == status.OK:
        pass


class TestFormat(unittest.TestCase):
    def test_every_byte_of_it(self):
        for align, log2 in ((4, 2), (32, 5)):
            flash, outbox = formatted(align=align)
            fill(outbox, 3, 8)
            outbox.shelf().put(2)
            block, start = outbox._shelf._now.block, max(32, align)
            header = struct.pack("<HBBI8sIIHH", 0x534F, 2, log2, 3, STREAM, 0, 0, 0, outbox.boot)
            salt = crc(header)
            record = struct.pack("<BBHII", 0x11, 3, 8, 2, crc(STREAM)) + b"t/2" + payload_of(2)[:8]
            record += struct.pack("<I", crc(record, salt ^ start >> 4))
            record += b"\xff" * (-len(record) % align)
            place = (start + len(record)) >> 4
            confirmation = struct.pack("<BBHII", 2, 0, 0, 0x3FFFFFFF, 0)
            record += confirmation + struct.pack("<I", crc(confirmation, salt ^ place))
            there = image_of(flash)[4096 * block : 4096 * block + 4096]
            self.assertEqual(there[:32], header + struct.pack("<I", salt))
            self.assertEqual(there[start : start + len(record)], record)
            self.assertEqual(set(there[start + len(record) :]), {0xFF})

    def test_a_block_is_just_full_with_its_messages_and_the_room_for_their_releases(self):
        flash, outbox = formatted()
        fill(outbox, 9, 457)  # records of 476 bytes; 8 * (476 + 16 + 16) = 4,096 - 32
        fill(outbox, 1, 557)  # 576; 7 * 476 + 572 + 9 * 16 + 16 = 4,096 - 32
        erases = flash.erases + 1
        answers = [outbox.shelf().put(seq) for seq in range(9)]
        self.assertEqual(answers, [status.OK] * 8 + [status.FULL])
        self.assertEqual(outbox.shelf().release(0), status.OK)
        self.assertEqual(outbox.shelf().put(9), status.FULL)  # four bytes too many
        self.assertEqual(flash.erases, erases)
        self.assertEqual(outbox.shelf().put(8), status.OK)  # in another block
        self.assertEqual(flash.erases, erases + 2)
        for _ in range(7):
            self.assertEqual(outbox.shelf().release(0), status.OK)
        self.assertEqual((outbox.aside, flash.erases), (1, erases + 2))  # each has its room
        self.assertEqual(set(on_shelf(mounted(flash))), {8})

    def test_each_of_them_can_be_released_while_no_other_block_is_free(self):
        _, outbox = formatted(blocks=4)
        fill(outbox, 8, 457)
        self.assertEqual([outbox.shelf().put(seq) for seq in range(8)], [status.OK] * 8)
        fill_up(outbox)
        self.assertEqual([outbox.shelf().release(0) for _ in range(8)], [status.OK] * 8)

    def test_after_a_mount_it_goes_on_in_its_block(self):
        flash, outbox = formatted()
        fill(outbox, 2)
        outbox.shelf().put(0)
        outbox = mounted(flash)
        erases = flash.erases
        self.assertEqual((outbox.shelf().put(1), outbox.shelf().release(0)), (status.OK, status.OK))
        self.assertEqual(flash.erases, erases)

    def test_a_device_with_pins_learns_which_block_is_programmed_without_an_erase(self):
        class Pinned(FaultyFlash):
            owned = ()

            def own(self, block):
                self.owned += (block,)

        flash, outbox = aside_in(kind=Pinned)
        flash.owned = ()
        outbox = mounted(flash)
        self.assertEqual(flash.owned, (outbox._head, outbox._shelf._now.block))


class TestCalls(unittest.TestCase):
    def test_only_the_message_that_was_asked_for(self):
        _, outbox = formatted()
        fill(outbox, 3)
        outbox.discard(0)
        self.assertEqual((outbox.shelf().put(0), outbox.aside), (status.EMPTY, 0))
        self.assertEqual((outbox.shelf().put(2), outbox.shelf().load(0)), (status.OK, status.OK))
        self.assertEqual((outbox.shelf().seq, loaded(outbox)[0]), (2, b"t/2"))

    def test_a_driver_that_calls_the_outbox_finds_it_busy(self):
        flash, outbox = formatted()
        fill(outbox, 2)
        write, answers = flash.writeblocks, set()

        def calling(block, buf, offset=None):
            write(block, buf, offset)
            answers.add(outbox.append(b"t", b"", 0))

        flash.writeblocks = calling
        self.assertEqual((outbox.shelf().put(0), answers), (status.OK, {status.BUSY}))

    def test_what_a_driver_refuses_and_what_does_not_read_back_is_counted(self):
        for fault in ("programs_fail", "programs_lost"):
            flash, outbox = aside_in(count=2)
            setattr(flash, fault, 1)
            outbox.shelf().release(0)
            self.assertEqual(outbox.storage_errors, 1, fault)


class TestBlocks(unittest.TestCase):
    def test_wherever_the_head_is(self):
        """The block is lent, given back and used again; each is erased before it is programmed."""
        for head in range(2 * BLOCKS):
            flash, outbox = formatted()
            fill(outbox, 1)
            for _ in range(head):
                outbox.discard_through(outbox.next_seq - 1)
                fill(outbox, 4)
            outbox.discard_through(outbox.next_seq - 2)
            outbox.erase_ahead()
            self.assertEqual(outbox.shelf().put(outbox.oldest_seq), status.OK)
            for _ in range(12 + head):
                fill(outbox, 1)
                outbox.discard(outbox.oldest_seq)
            if head % 2:
                outbox = mounted(flash)
            self.assertEqual(outbox.shelf().release(0), status.OK)
            self.assertEqual((outbox._out, outbox.lent), ((), ()), head)
            for _ in range(40):
                fill(outbox, 1)
                self.assertEqual(outbox.load(outbox.oldest_seq), status.OK)
                outbox.discard(outbox.oldest_seq)
            self.assertEqual(outbox.unreadable, 0)

    def test_a_bad_block_is_not_taken_for_one_to_be_given_back(self):
        flash, outbox = formatted()
        outbox._leave_out(1)
        fill(outbox, 3)
        erases = flash.block_erases[1]
        self.assertEqual(outbox.shelf().put(0), status.OK)
        self.assertEqual((outbox.left_out, flash.block_erases[1]), (1, erases))

    def test_in_a_full_ring_it_keeps_its_block_until_another_is_free(self):
        for block in range(4):
            flash, outbox = formatted(blocks=4)
            while fill(outbox, 1)._after(outbox._head) != block:
                outbox.discard_through(outbox.next_seq - 1)
            self.assertEqual(outbox.shelf().put(outbox.next_seq - 1), status.OK)
            fill_up(outbox)
            self.assertEqual((outbox.shelf().release(0), outbox.aside), (status.OK, 0))
            self.assertEqual((outbox.lent, outbox._out), ((block,), (block,)))
            self.assertEqual(outbox.left_out, 0)
            self.assertEqual(outbox.shelf().tidy(), status.OK)
            self.assertEqual((outbox.lent, mounted(flash).aside), ((block,), 0))
            outbox.discard_through(outbox.next_seq - 1)
            fill(outbox, 1)
            self.assertEqual(outbox.shelf().tidy(), status.OK)
            self.assertEqual((outbox.lent, outbox._out), ((), ()), block)

    def in_a_small_ring(self, kind, bad):
        """(chip, outbox): three blocks that work, one of them a shelf; a message held."""
        flash, outbox = formatted(kind, blocks=3 + len(bad))
        for block in bad:
            outbox._leave_out(block)
        fill(outbox, 1)
        self.assertEqual(outbox.shelf().put(0), status.OK)
        outbox.discard(0)
        fill(outbox, 1)
        return flash, outbox

    def test_in_a_ring_of_three_blocks_that_work_it_gives_its_block_back(self):
        for kind, bad in ((Outbox, ()), (NotedOutbox, ()), (DropOldest, ()), (Outbox, (3,))):
            _, outbox = self.in_a_small_ring(kind, bad)
            for number in range(40):
                self.assertEqual(outbox.shelf().release(0), status.OK)
                found = outbox._out, outbox.lent, outbox._is_worn_out
                self.assertEqual(found, (bad, (), False), (kind, number))
                fill(outbox, 1)
                outbox.discard_through(outbox.next_seq - 2)
                self.assertEqual(outbox.shelf().put(outbox.next_seq - 1), status.OK)

    def test_a_cut_in_each_operation_of_that(self):
        image = image_of(self.in_a_small_ring(Outbox, ())[0])
        cuts = 0
        for mode in CUT_MODES:
            for at in range(1, 12):
                flash = flash_in_ram(3, 256, image)
                outbox = mounted(flash)
                flash.cut_at, flash.cut_mode = flash.operations + at, mode
                try:
                    outbox.shelf().release(0)
                except PowerCut:
                    cuts += 1
                flash.cut_at = 0
                outbox = mounted(flash)
                self.assertTrue(outbox.load(1) == status.OK and outbox.loaded_seq == 1)
                self.assertTrue(loaded(outbox)[1] == payload_of(1))
                for _ in range(3):  # at most: a release that is torn fills its block
                    if outbox.aside:
                        outbox.shelf().release(0)
                    if outbox.lent:
                        outbox.shelf().tidy()
                    outbox.discard_through(outbox.next_seq - 1)
                    fill(outbox, 1)
                found = outbox.aside, outbox._out, outbox.lent, outbox._is_worn_out
                self.assertEqual(found, (0, (), (), False), (mode, at))
        self.assertTrue(cuts > 20, cuts)

    def test_in_a_ring_of_three_a_bad_block_stops_nothing(self):
        """The shelf's own is left out; the one that would follow is found by the ring itself."""
        for is_own in (True, False):
            flash, _ = self.in_a_small_ring(Outbox, ())
            flash = Dying(flash._file, 3, 256)
            outbox = mounted(flash)
            own = outbox.lent[0]
            flash.dead = (own if is_own else outbox._after(outbox._head),)
            self.assertEqual(outbox.shelf().release(0), status.OK)
            self.assertFalse(outbox._is_worn_out)
            self.assertEqual((outbox._out, outbox.left_out), ((own,), int(is_own)))
            self.assertEqual(outbox.lent, () if is_own else (own,))
            fill(outbox, 1)
            if is_own:
                for _ in range(20):
                    outbox.discard_through(outbox.next_seq - 1)
                    fill(outbox, 1)

    def test_an_empty_shelf_that_is_not_programmed_keeps_no_block(self):
        flash, outbox = aside_in(count=1)
        block = outbox._shelf._now.block
        flash.lost, flash.programs_lost = outbox._after(outbox._head), 1
        self.assertEqual((outbox.shelf().release(0), flash.programs_lost), (status.OK, 0))
        self.assertEqual((outbox.lent, outbox._out), ((block,), (block,)))
        self.assertEqual(outbox.shelf().tidy(), status.OK)
        self.assertEqual((outbox.lent, outbox._out), ((), ()))

    def test_a_release_that_nothing_took_is_no_release(self):
        flash, outbox = aside_in(4, 1)
        fill_up(outbox)
        flash.programs_lost = 1
        self.assertEqual(outbox.shelf().release(0), status.STORAGE)
        self.assertEqual((outbox.aside, mounted(flash).aside), (1, 1))
        flash, outbox = aside_in(count=1)
        flash.programs_lost = 2  # the release; the header of an empty shelf
        self.assertEqual(outbox.shelf().release(0), status.STORAGE)
        self.assertEqual((outbox.aside, mounted(flash).aside), (1, 1))


class TestFaults(unittest.TestCase):
    def check(self, flash, wanted, allowed=()):
        """Found after a mount; then released, and no block is missing from the ring."""
        outbox = mounted(faulty(BLOCKS, image_of(flash)))
        self.assertEqual(set(on_shelf(outbox)) - set(allowed), wanted)
        for seq, payload in on_shelf(outbox).items():
            self.assertEqual(payload, payload_of(seq))
        while outbox.aside:
            self.assertEqual(outbox.shelf().release(0), status.OK)
        self.assertEqual(outbox.shelf().tidy(), status.OK)
        self.assertEqual((outbox._out, outbox.lent, outbox.left_out), ((), (), 0))

    def test_programs_that_are_lost(self):
        for lost in range(1, 4):
            for after in range(12):
                flash, outbox = aside_in()
                write, left = flash.writeblocks, [after]

                def losing(block, buf, offset=None, flash=flash, write=write, left=left, lost=lost):
                    left[0] -= 1
                    flash.programs_lost = int(-lost <= left[0] < 0)
                    write(block, buf, offset)

                fill(outbox, 2)
                flash.writeblocks = losing
                wanted, failed = {0, 1, 2, 3}, set()
                if outbox.shelf().release(1) == status.OK:
                    wanted.remove(1)
                for seq in (4, 5):
                    answer = outbox.shelf().put(seq)
                    (failed if answer else wanted).add(seq)
                    self.assertEqual(set(on_shelf(outbox)), wanted)
                    self.assertTrue(answer in (status.OK, status.STORAGE, status.FULL))
                del flash.writeblocks
                self.check(flash, wanted, failed)
                while outbox.aside:
                    self.assertEqual(outbox.shelf().release(0), status.OK)
                self.assertEqual((outbox._out, outbox.lent), ((), ()), (lost, after))

    def test_reads_that_fail_while_it_is_looked_for(self):
        flash, outbox = aside_in()
        outbox.discard_through(3)
        outbox.save_state()
        image = image_of(flash)
        reads, done = 0, False
        while not done:
            flash = faulty(BLOCKS, image)
            outbox = mounted(flash)
            outbox._shelf = None
            read, left = flash.readblocks, [reads]

            def failing(block, buf, offset=0, read=read, left=left):
                left[0] -= 1
                if left[0] == -1:
                    raise OSError(5)
                read(block, buf, offset)

            flash.readblocks = failing
            done = outbox.shelf().tidy() == status.OK
            self.assertEqual(outbox.storage_errors, int(not done))
            del flash.readblocks
            self.assertEqual(outbox.shelf().tidy(), status.OK)
            self.assertEqual(set(on_shelf(outbox)), {0, 1, 2, 3})
            self.check(flash, {0, 1, 2, 3})
            reads += 1
        self.assertTrue(reads > 4)

    def test_a_flipped_bit_while_it_is_in_use(self):
        flash, outbox = aside_in()
        block = outbox._shelf._now.block
        flash.put(block * 4096 + 32 + 920 + 100, b"\0\0")  # in the second one
        answers = [outbox.shelf().load(index) for index in range(4)]
        self.assertEqual(answers, [status.OK, status.EMPTY, status.OK, status.OK])
        fill(outbox, 1)
        self.assertEqual((outbox.shelf().put(4), outbox.unreadable), (status.OK, 1))  # copied
        self.assertEqual(set(on_shelf(outbox)), {0, 2, 3, 4})
        self.check(flash, {0, 2, 3, 4})

    def test_a_flipped_bit_in_a_copy(self):
        flash, outbox = aside_in()
        fill(outbox, 1)
        self.assertEqual(outbox.shelf().release(0), status.OK)
        self.assertEqual(outbox.shelf().put(4), status.OK)  # in another block
        flash.put(outbox._shelf._now.block * 4096 + 32 + 920 + 100, b"\0\0")
        self.check(flash, {1, 3, 4})

    def test_records_at_the_start_of_a_page_are_copied(self):
        _, outbox = formatted(align=256)
        for _ in range(12):
            fill(outbox, 1)
            self.assertEqual(outbox.shelf().put(outbox.next_seq - 1), status.OK)
            outbox.discard(outbox.oldest_seq)
            if outbox.aside == 2:
                self.assertEqual(outbox.shelf().release(0), status.OK)
        self.assertEqual((set(on_shelf(outbox)), outbox.unreadable), ({11}, 0))


class WeakFlash(FaultyFlash):
    """Cuts the program that writes `cut_record`, all but done: one cell of its CRC is weak, and
    reads as erased once `is_gone`."""

    cut_record = b""
    weak, is_gone = None, False

    def ioctl(self, op, arg):
        if op == ERASE and self.weak and self.weak[0] // 4096 == arg:
            self.weak = None
        return FaultyFlash.ioctl(self, op, arg)

    def readblocks(self, block, buf, offset=0):
        FaultyFlash.readblocks(self, block, buf, offset)
        at = self.weak[0] - 4096 * block - offset if self.weak and self.is_gone else -1
        if 0 <= at < len(buf):
            buf[at] |= self.weak[1]

    def writeblocks(self, block, buf, offset=None):
        FaultyFlash.writeblocks(self, block, buf, offset)
        data = bytes(buf)
        if self.cut_record and self.cut_record in data:
            at = len(data.rstrip(b"\xff")) - 2
            bit = next(bit for bit in range(8) if not data[at] >> bit & 1)
            self.weak = 4096 * block + offset + at, 1 << bit
            self.cut_record = b""
            raise PowerCut()


class TestTornRecords(unittest.TestCase):
    def _cut(self, cut_record, blocks=4, held=3):
        """A put() of message 0 that was cut in the program of these bytes."""
        flash = faulty(blocks, kind=WeakFlash)
        outbox = Outbox(flash, 1024)
        assert outbox.format(STREAM) == status.OK
        fill(outbox, held, 40)
        flash.cut_record = cut_record
        with self.assertRaises(PowerCut):
            outbox.shelf().put(0)
        return flash

    def test_a_start_makes_sure_of_what_may_be_torn(self):
        flash = self._cut(payload_of(0)[:40])
        outbox = mounted(flash)
        self.assertEqual((outbox.aside, outbox.shelf().has(0)), (1, True))
        outbox.discard(0)
        outbox.save_state()
        flash.is_gone = True
        self.assertEqual(on_shelf(mounted(flash)), {0: payload_of(0)[:40]})

    def test_what_is_read_as_torn_is_the_rings_until_it_is_set_aside_again(self):
        flash = self._cut(payload_of(0)[:40])
        flash.is_gone = True
        outbox = mounted(flash)
        self.assertEqual((outbox.aside, outbox.shelf().has(0)), (0, False))
        self.assertEqual((outbox.load(0), outbox.loaded_seq), (status.OK, 0))
        self.assertEqual(outbox.shelf().put(0), status.OK)
        outbox.discard(0)
        outbox.save_state()
        for flash.is_gone in (False, True):
            self.assertEqual(on_shelf(mounted(flash)), {0: payload_of(0)[:40]})

    def test_one_whose_confirmation_is_torn_is_on_the_shelf_once_the_ring_released_it(self):
        flash = self._cut(struct.pack("<BBHII", 2, 0, 0, 0x3FFFFFFF, 0))
        outbox = mounted(flash)
        self.assertTrue(outbox.shelf().has(0))
        outbox.discard(0)
        outbox.save_state()
        flash.is_gone = True
        self.assertEqual(set(on_shelf(mounted(flash))), {0})

    def test_in_a_ring_of_three_a_torn_record_keeps_nothing_on_the_shelf(self):
        flash = faulty(3, kind=WeakFlash)
        outbox = Outbox(flash, 512)
        assert outbox.format(STREAM) == status.OK
        fill(outbox, 2, 40)
        self.assertEqual(outbox.shelf().put(0), status.OK)
        outbox.discard(0)
        outbox.save_state()
        flash.cut_record = payload_of(1)[:40]
        with self.assertRaises(PowerCut):
            outbox.shelf().put(1)
        flash.is_gone = True
        outbox = Outbox(flash, 512)
        self.assertEqual((outbox.mount(), outbox.aside), (status.OK, 1))
        self.assertEqual(outbox.shelf().put(1), status.OK)
        self.assertEqual([outbox.shelf().release(0) for _ in range(2)], [status.OK] * 2)
        outbox = Outbox(flash, 512)
        self.assertEqual((outbox.mount(), outbox.aside), (status.OK, 0))

    def test_a_block_that_takes_no_erase_brings_nothing_back(self):
        flash, outbox = aside_in(count=1, kind=Dying)
        flash.dead = (outbox._shelf._now.block,)
        self.assertEqual(outbox.shelf().release(0), status.OK)
        for _ in range(3):
            outbox = mounted(flash)
            self.assertEqual(outbox.aside, 0)
            if outbox.lent:
                outbox.shelf().tidy()
            fill(outbox, 1, 40)
            outbox.discard_through(outbox.next_seq - 1)


class TestCuts(unittest.TestCase):
    def test_an_erase_that_is_torn_leaves_no_block_out(self):
        for mode in CUT_MODES:
            for at in range(1, 5):
                flash, outbox = formatted()
                fill(outbox, 2)
                outbox.shelf().put(0)
                for _ in range(12):  # on both sides of its block there are sectors of the ring
                    fill(outbox, 1)
                    outbox.discard(outbox.oldest_seq)
                flash.cut_at, flash.cut_mode = flash.operations + at, mode
                try:
                    outbox.shelf().release(0)
                except PowerCut:
                    pass
                flash.cut_at = 0
                outbox = mounted(flash)
                if outbox.aside:
                    outbox.shelf().release(0)
                self.assertEqual(outbox.shelf().tidy(), status.OK)
                self.assertEqual((outbox._out, outbox.left_out), ((), 0), (mode, at))

    def test_what_was_copied_in_part_is_given_back_at_the_next_connection(self):
        for at in range(1, 9):
            flash, outbox = formatted()
            fill(outbox, 5)
            for seq in range(4):
                outbox.shelf().put(seq)
            outbox.shelf().release(0)
            outbox.discard_through(3)
            outbox.save_state()
            flash.cut_at, flash.cut_mode = flash.operations + at, "first"
            try:
                outbox.shelf().put(4)
            except PowerCut:
                pass
            flash.cut_at = 0
            outbox = mounted(flash)
            self.assertEqual(outbox.shelf().tidy(), status.OK)
            self.assertTrue(set(on_shelf(outbox)) in ({1, 2, 3}, {1, 2, 3, 4}))
            block = outbox._shelf._now.block
            self.assertEqual((outbox._out, outbox.left_out), ((block,), 0), at)
            self.assertEqual([one for one in outbox.lent if one != block], [])

    def test_beside_an_old_one_that_takes_no_erase(self):
        for at in range(1, 12):
            flash, outbox = formatted()
            fill(outbox, 4)
            for seq in range(4):
                outbox.shelf().put(seq)
            outbox.discard_through(3)
            outbox.save_state()
            old = outbox._shelf._now.block

            class Dying(NorFlash):
                dead = old

                def ioctl(self, op, arg):
                    if op == ERASE and arg == self.dead:
                        raise OSError(5)
                    return NorFlash.ioctl(self, op, arg)

            flash = Dying(flash_in_ram(BLOCKS, 256, image_of(flash))._file, BLOCKS, 256)
            flash.on_cut = flash_in_ram(1).on_cut
            outbox = mounted(flash)
            fill(outbox, 3)
            wanted = {0, 1, 2, 3}
            try:
                for seq in range(4, 7):
                    self.assertEqual(outbox.shelf().release(0), status.OK)
                    wanted.remove(seq - 4)
                    if seq == 6:
                        flash.cut_at, flash.cut_mode = flash.operations + at, "first"
                    self.assertEqual(outbox.shelf().put(seq), status.OK)
                    wanted.add(seq)
                    outbox.discard(seq)
                    outbox.save_state()
            except PowerCut:
                pass
            flash.cut_at = 0
            self.assertTrue(wanted <= set(on_shelf(mounted(flash))) <= wanted | {6}, at)


if __name__ == "__main__":
    unittest.main()

"""What a block of the shelf is found to hold, field by field, from blocks that are made by hand: a
wrong field costs a message only with a second fault, so no other test would miss it.
"""

import struct
import unittest

from fake_flash import image_of, looking
from faulty_flash import ERASE, FaultyFlash, faulty, formatted, publish
from outpost import status
from outpost.flash.shelf_block import Block, scan
from outpost.outbox import Outbox
from outpost.state_note import NotedOutbox
from test_shelf_doubt import Deaf
from test_shelf_faults import Dying, crc

AT = 2  # the block
STREAM = 0x1234567
NOTHING = 0x3FFFFFFF


def padded(record, align):
    return record + b"\xff" * (-len(record) % align)


def message(seq, size=36, kind=0x11, stream=STREAM):
    """A record, without its CRC."""
    text = (b"t" + b"%02d" % seq * size)[: size - 16]
    lengths = len(text[:1]), len(text[1:])
    return struct.pack("<BBHII", kind, lengths[0], lengths[1], seq, stream) + text


def release(seq=NOTHING, stream=0):
    return struct.pack("<BBHII", 2, 0, 0, seq, stream)


class Made:
    """A block, made record by record."""

    def __init__(self, align=4, began_with=0, before=-1, age=0, number=7, magic=0x534F):
        log2 = {4: 2, 16: 4, 32: 5, 256: 8}[align]
        header = struct.pack(
            "<HBBI8sIIHH", magic, 2, log2, number, b"01234567", began_with, before + 1, age, 9
        )
        self.salt, self.align = crc(header), align
        self.data = padded(header + struct.pack("<I", crc(header)), align)
        self.at = []  # where each record begins

    def add(self, record, place=None, wrong=0):
        """wrong: what is turned in its first byte after the lengths."""
        self.at.append(len(self.data))
        if place is None:
            place = len(self.data) >> 4
        record = bytearray(record + struct.pack("<I", crc(record, self.salt ^ place)))
        record[4] ^= wrong
        self.data += padded(bytes(record), self.align)
        return self

    def found(self, record_bytes=512, block=AT):
        self.flash, self.outbox = formatted()
        self.outbox.record_bytes = record_bytes
        self.flash.put(4096 * block, (self.data + b"\xff" * 4096)[:4096])
        return scan(self.outbox, block)


class TestScan(unittest.TestCase):
    def test_a_header(self):
        for align in (4, 16, 32, 256):
            one = Made(align, 0x102, 0x203, 0x105).found()
            self.assertEqual((one.block, one.number, one.align), (AT, 7, align))
            self.assertEqual((one.began_with, one.replaced, one.age), (0x102, 0x203, 5))
            self.assertEqual((one.offset, one.records), (max(32, align), 0))
            self.assertEqual((one.held, one.loose, one.torn, one.newest), ([], [], 0, -1))
        self.assertEqual(Made().found().replaced, -1)
        self.assertEqual(Made(magic=0x424F).found(), None)

    def test_messages_and_what_confirms_them(self):
        for align in (4, 16, 32, 256):
            made = Made(align).add(message(5)).add(release()).add(message(6, 40))
            one, at = made.found(), made.at
            places = [offset >> 4 for offset in at]
            held = [(5, STREAM, at[0], 36, places[0]), (6, STREAM, at[2], 40, places[2])]
            self.assertEqual(one.held, held, align)
            self.assertEqual((one.loose, one.newest, one.torn), ([places[2]], places[2], 0))
            self.assertEqual((one.records, one.offset), (places[2] + 1, len(made.data)))
            one = made.add(release()).found()
            self.assertEqual((one.held, one.loose, one.torn), (held, [], 0))
            self.assertEqual(one.newest, made.at[3] >> 4)

    def test_a_release_of_nothing_confirms_the_record_before_it_alone(self):
        made = Made().add(message(5)).add(message(6)).add(release())
        self.assertEqual(made.found().loose, [made.at[0] >> 4])
        made = Made().add(message(5)).add(release(6, STREAM)).add(release())
        self.assertEqual(made.found().loose, [made.at[0] >> 4])

    def test_a_release_and_a_newer_record_of_the_same_message(self):
        for stream, left in ((STREAM, [4, 6]), (STREAM + 1, [4, 5, 6])):
            made = Made().add(message(4)).add(message(5)).add(message(6)).add(release(5, stream))
            self.assertEqual([held[0] for held in made.found().held], left)
            made.data = made.data[: made.at.pop()]
            held = made.add(message(5, 44, stream=stream)).found().held
            self.assertEqual([one[0] for one in held], [4, 5, 6] + [5] * (len(left) == 3))
            self.assertEqual(44 in [one[3] for one in held], True)

    def test_copies_are_numbered_and_need_no_confirmation(self):
        made = Made(began_with=2).add(message(5), 0).add(message(6), 1)
        one = made.found()
        self.assertEqual((one.copies, one.loose, one.records, one.newest), (2, [], 2, 1))
        self.assertEqual([held[4] for held in one.held], [0, 1])
        one = made.add(release()).add(message(7)).found()
        self.assertEqual((one.copies, one.loose), (2, [made.at[3] >> 4]))
        one = Made(began_with=2).add(message(5), 0).found()
        self.assertEqual((one.copies, one.records), (1, 1))
        one = Made(began_with=1).add(message(5), 0).add(message(6), 1).found()  # earlier firmware
        self.assertEqual((one.copies, one.loose), (1, [1]))

    def test_a_number_that_is_not_next_is_of_an_earlier_use(self):
        for numbers, count in (((0, 1, 2), 3), ((1,), 0), ((0, 2), 1), ((0, 0), 1)):
            made = Made()
            for seq, place in enumerate(numbers):
                made.add(message(seq), place)
            self.assertEqual(len(made.found().held), count, numbers)

    def test_after_what_is_torn_two_numbers_may_be_missing(self):
        for place, count in ((1, 2), (2, 2), (3, 2), (4, 1), (0, 1)):
            made = Made().add(message(0), 0).add(release(), 1, 1).add(message(1), place)
            self.assertEqual(len(made.found().held), count, place)
            made.add(message(2), place + 1).add(message(3), place + 3)
            self.assertEqual(len(made.found().held), 1 + 2 * (count - 1) + (place == 0), place)

    def test_where_something_torn_ends(self):
        made = Made().add(message(5)).add(release()).add(release(5, STREAM), None, 1)
        for record in (message(6), release()):
            made.add(record)
            self.assertEqual(made.found().torn, made.at[3])
        made = Made().add(release(), None, 1).add(message(5)).add(message(6))
        self.assertEqual((made.found().torn, len(made.found().held)), (made.at[1], 2))

    def test_a_message_that_has_flipped_is_not_torn(self):
        for align in (4, 32):
            made = Made(align).add(message(5)).add(message(6, 100), None, 1).add(message(7))
            one = made.found()
            self.assertEqual((one.torn, [held[0] for held in one.held]), (0, [5, 7]))
            made = Made(align).add(message(6, 100), None, 1).add(release(), None, 1).add(message(7))
            self.assertEqual(made.found().torn, made.at[2])
        for size in (37, 39, 100):  # its last bytes are less than the alignment
            made = Made().add(message(5, size), None, 1).add(message(7))
            self.assertEqual(made.found().torn, 0)

    def test_what_has_no_kind_or_no_length_of_a_message_is_torn(self):
        for record, is_torn in ((message(6, 36, 0x12), True), (message(6, 16), True),
                                (message(6, 17), False), (message(6), False)):  # fmt: skip
            made = Made().add(message(5)).add(record, None, 1).add(message(7))
            self.assertEqual(made.found().torn, made.at[2] * is_torn)

    def test_what_follows_a_torn_end_goes_behind_the_place_of_the_largest_record(self):
        for align, record_bytes in ((4, 512), (4, 101), (32, 500)):
            made = Made(align).add(message(5)).add(message(6), None, 1)
            one = made.found(record_bytes)
            after = made.at[1] + -(-record_bytes // align) * align
            self.assertEqual((one.offset, one.records), (after, (made.at[0] >> 4) + 1), align)
            # Places are passed until the rest is erased.
            self.assertEqual(one.torn, made.at[1] + len(padded(b"\0" * 36, align)))

    def test_no_such_place_is_left(self):
        for rest in (512, 516, 520, 900):
            made = Made()
            while 4096 - rest - len(made.data) >= 100:
                made.add(message(5))
            last = 4096 - rest - len(made.data)
            made.add(message(6, last)).add(message(7), None, 1)
            offset = 4096 - rest + 512
            self.assertEqual(made.found().offset, min(offset, 4096), rest)
            made.data = (made.data + b"\xff" * 4096)[:4090] + b"\0" * 6
            self.assertEqual(made.found().offset, 4096, rest)

    def test_full_to_the_last_byte(self):
        made = Made()
        while len(made.data) < 4096 - 100:
            made.add(message(len(made.at)))
        made.add(message(999, 4096 - len(made.data)))
        one = made.found()
        self.assertEqual((one.offset, one.torn, one.held[-1][0]), (4096, 0, 999))
        self.assertEqual(len(one.held), len(made.at))


class TestWhichCounts(unittest.TestCase):
    def counts(self, made):
        old = Made().add(message(4)).add(message(5)).add(release()).found()
        return made.found().counts_over(old)

    def test_one_that_is_complete_and_confirmed(self):
        for began_with, seqs, counts in ((2, (5,), False), (1, (5,), False), (1, (6,), True),
                                         (2, (4, 5), False), (2, (5, 6), True)):  # fmt: skip
            made = Made(began_with=began_with, before=1)
            for place, seq in enumerate(seqs):
                made.add(message(seq), place)
            self.assertEqual(self.counts(made), counts, seqs)
            self.assertEqual(self.counts(made.add(release())), began_with == len(seqs), seqs)

    def test_an_empty_one_that_follows_another(self):
        for before, counts in ((-1, False), (0, True), (1, True)):
            self.assertEqual(self.counts(Made(before=before)), counts, before)
            self.assertTrue(self.counts(Made(before=before).add(release())))


def fields(one):
    return (one.block, one.number, one.salt, one.align, one.held, one.offset, one.records,
            one.newest, one.loose, one.torn, one.began_with, one.copies, one.age)  # fmt: skip


class TestWritten(unittest.TestCase):
    """What is kept of a block in use is what a start finds in it."""

    def same(self, outbox, replaced):
        now = outbox._shelf._now
        found = scan(outbox, now.block)
        self.assertEqual((fields(now), found.replaced), (fields(found), replaced))
        self.assertTrue(found.records > found.began_with)

    def test_after_each_call(self):
        for align in (4, 16, 32, 256):
            flash = faulty(6)
            outbox = Outbox(flash, 1024, align)
            assert outbox.format(b"01234567") == status.OK
            while outbox._after(outbox._head):  # the first block of the shelf is the ring's first
                publish(outbox)
                outbox.discard_through(outbox.next_seq - 2)
            blocks = [-1]
            for number in range(20):
                publish(outbox, 1, 300)
                self.assertEqual(outbox.shelf().put(outbox.next_seq - 1, number & 1), status.OK)
                outbox.discard_through(outbox.next_seq - 2)
                if outbox._shelf._now.block != blocks[-1]:
                    blocks.append(outbox._shelf._now.block)
                self.same(outbox, blocks[-2])
                if outbox.aside == 3:
                    self.assertEqual(outbox.shelf().release(number % 3), status.OK)
                    self.same(outbox, blocks[-2])
            self.assertEqual((blocks[1], len(blocks) > 2), (0, True), align)

    def test_copies_are_confirmed_whatever_block_they_come_from(self):
        for block in range(3):
            made = Made().add(message(5)).add(message(6)).add(release())
            old, new = made.found(block=block), Block(3, 8, 0, 4)
            made.flash.ioctl(ERASE, 3)
            self.assertTrue(new.begin(made.outbox, old.held, old))
            found = scan(made.outbox, 3)
            self.assertEqual((fields(new), found.replaced), (fields(found), block))
            self.assertEqual((found.copies, found.records > 2), (2, True), block)

    def test_a_record_that_is_not_taken_has_used_up_its_place(self):
        for fault in ("programs_fail", "programs_lost"):
            flash, outbox = formatted(6)
            publish(outbox, 2)
            outbox.shelf().put(0)
            now = outbox._shelf._now
            before, held, errors = now.offset, now.held, outbox.storage_errors
            setattr(flash, fault, 1)
            self.assertFalse(now.append(outbox, bytearray(message(9) + bytes(4))))
            self.assertEqual((now.offset, now.torn), (before + 36, before + 36))
            self.assertEqual((now.records, now.held), ((before >> 4) + 1, held))
            self.assertEqual(outbox.storage_errors, errors + 1)
            self.assertFalse(now.is_sure(held[0]))
            self.assertTrue(now.append(outbox, bytearray(message(9) + bytes(4))))
            self.assertEqual((now.torn, now.held[-1][2]), (before + 36, before + 36))
            self.assertFalse(now.is_sure(now.held[-1]))
            self.assertTrue(now.confirm(outbox))
            self.assertTrue(now.is_sure(now.held[-1]))


def aside(count=2, blocks=8, kind=FaultyFlash):
    """(chip, outbox) whose first messages are on the shelf, in block 1."""
    flash, outbox = formatted(flash=faulty(blocks, kind=kind))
    publish(outbox, count, 100)
    for seq in range(count):
        assert outbox.shelf().put(seq) == status.OK
    return flash, outbox


def moved(outbox):
    """The shelf goes on in another block: its messages, and one more. Returns both blocks."""
    old = outbox._shelf._now.block
    while outbox._shelf._now.block == old:
        now = outbox._shelf._now
        while now.offset + 600 < 4096:
            assert now.confirm(outbox)
        publish(outbox)
        assert outbox.shelf().put(outbox.next_seq - 1) == status.OK
    return old, outbox._shelf._now.block


class TestFound(unittest.TestCase):
    def test_a_block_whose_erase_was_cut_is_not_taken_for_a_bad_one(self):
        flash, outbox = aside()
        for _ in range(20):  # there are sectors on both sides of it
            publish(outbox)
            outbox.discard_through(outbox.next_seq - 2)
        old, now = moved(outbox)
        self.assertTrue(old < outbox._head and outbox.left_out == 0)
        flash.put(4096 * old, bytes(40))
        again = Outbox(flash)
        self.assertEqual(again.mount(), status.OK)
        self.assertEqual((again.left_out, set(again.lent)), (0, {old, now}))
        self.assertEqual((again.shelf().tidy(), again.lent, again._out), (0, (now,), (now,)))

    def test_only_a_message_that_the_ring_has_is_confirmed_again(self):
        for oldest, released, in_ring in ((0, (), True), (2, (), True), (2, (3,), True),
                                          (3, (5,), True), (2, (4,), False), (4, (), True),
                                          (4, (5,), True), (5, (), False), (3, (4,), False),
                                          (7, (), False)):  # fmt: skip
            flash, outbox = formatted(8)
            publish(outbox, 8, 100)
            outbox.shelf().put(1)
            outbox.shelf().put(4)
            now = outbox._shelf._now
            flash.put(4096 * now.block + now.offset - 16, b"\xff" * 16)  # its confirmation
            outbox.discard_through(oldest - 1)
            for seq in released:
                self.assertTrue(outbox.discard(seq))
            outbox.save_state()
            again = looking(Outbox)(flash)
            self.assertEqual((again.mount(), again.aside), (status.OK, 2))
            found = again._shelf._now
            self.assertEqual(found.offset > now.offset, in_ring, (oldest, released))
            self.assertEqual(again.shelf().has(4), in_ring)
            self.assertEqual([held[0] for held in found.held], [1, 4])

    def test_a_number_that_the_ring_has_not_given_is_in_no_doubt(self):
        _, outbox = aside()
        shelf = outbox.shelf()
        shelf._now.loose = [99]
        for seq, is_in_doubt in ((0, True), (1, True), (2, False), (3, False)):
            held = seq, crc(b"01234567"), 32, 36, 99
            self.assertEqual(shelf._is_in_doubt(held), is_in_doubt, seq)

    def test_a_release_erases_nothing_while_an_older_block_is_there(self):
        flash, outbox = aside()
        old = outbox._shelf._now.block
        kept = image_of(flash)[4096 * old : 4096 * old + 4096]
        moved(outbox)
        flash.put(4096 * old, kept)
        outbox = Outbox(flash)
        self.assertEqual((outbox.mount(), len(outbox.lent)), (status.OK, 2))
        erases, now = flash.erases, outbox.shelf()._now.block
        self.assertEqual((outbox.shelf().release(0), flash.erases), (status.OK, erases))
        self.assertEqual(outbox.shelf()._now.block, now)
        self.assertEqual((outbox.shelf().tidy(), outbox._out), (status.OK, (now,)))


class TestCalls(unittest.TestCase):
    def test_a_read_that_fails_is_counted_and_leaves_all_as_it_was(self):
        flash, outbox = aside()
        shelf = outbox.shelf()
        shelf._now.loose = [shelf._now.held[1][4]]  # as after a cut before its confirmation
        before, errors = fields(shelf._now), outbox.storage_errors
        flash.reads_fail = 1
        self.assertEqual((shelf.settle(), outbox.storage_errors), (status.STORAGE, errors + 1))
        self.assertEqual((fields(shelf._now), outbox.aside, outbox._busy), (before, 2, False))
        self.assertEqual((shelf.settle(), outbox.storage_errors), (status.OK, errors + 1))
        self.assertTrue(shelf.has(1))

    def in_doubt(self, align=4):
        """(outbox, its shelf, what is kept of the block); message 1 is not confirmed."""
        outbox = Outbox(faulty(8), 512, align)
        assert outbox.format(b"01234567") == status.OK
        publish(outbox, 3, 100)
        for seq in (0, 1):
            assert outbox.shelf().put(seq) == status.OK
        now = outbox._shelf._now
        now.loose = [now.held[1][4]]
        return outbox, outbox.shelf(), now

    def test_a_message_in_doubt_is_copied_before_a_later_record(self):
        for call in ("put", "release"):
            for align in (4, 256):
                _, shelf, now = self.in_doubt(align)
                offset = now.offset
                self.assertEqual(shelf.put(2) if call == "put" else shelf.release(0), status.OK)
                self.assertEqual(shelf._now, now)
                places = {held[0]: held[2] for held in now.held}
                self.assertEqual((places[1], shelf.has(1)), (offset, True), call)

    def test_it_is_copied_in_its_block_while_that_has_room_for_all_releases(self):
        for more in (0, 4):
            outbox, shelf, now = self.in_doubt()
            now.offset = 4096 - 120 - 4 * 16 + more
            self.assertEqual((shelf.settle(), shelf._now == now), (status.OK, not more))
            self.assertTrue(shelf.has(1) and outbox.aside == 2)


def full(sizes, blocks=4, block=1):
    """(chip, outbox): a shelf in this block has messages of these sizes, and so has the ring."""
    flash = faulty(blocks)
    outbox = Outbox(flash, 1024)
    assert outbox.format(b"01234567") == status.OK
    while outbox._after(outbox._head) != block:
        publish(outbox)
        outbox.discard_through(outbox.next_seq - 2)
    outbox.discard_through(outbox.next_seq - 1)
    publish(outbox, len(sizes), 20)
    made = Made()
    for number, size in enumerate(sizes):
        made.add(message(outbox.oldest_seq + number, size, stream=crc(b"01234567")))
    flash.put(4096 * block, (made.data + b"\xff" * 4096)[:4096])
    outbox.lent = outbox._out = (block,)
    outbox._ready = -1
    outbox.shelf()._now.loose = []
    return flash, outbox


class TestRoom(unittest.TestCase):
    """A block that replaces another may be full with what it begins with, and its confirmation; and
    the head alone may be left in the ring."""

    def moves(self, outbox, call, answer=status.OK):
        self.assertEqual(call(outbox.shelf()), answer)
        is_moved = answer == status.OK
        self.assertEqual(outbox.shelf()._now.block == outbox._after(outbox._head), False)
        self.assertEqual(outbox.lent == (), is_moved)
        return outbox.shelf()._now

    def test_for_messages_in_doubt(self):
        for blocks, block in ((3, 1), (4, 1), (4, 0)):
            for more, answer in ((0, status.OK), (4, status.FULL)):
                for is_refused in (False, True):
                    flash, outbox = full([1012] * 3 + [1012 + more], blocks, block)
                    now = outbox.shelf()._now
                    now.loose = [now.held[3][4]]
                    if is_refused:
                        now.offset, flash.programs_lost = 1000, 1
                    now = self.moves(outbox, lambda shelf: shelf._settle(None), answer)
                    self.assertEqual(len(now.held), 4)

    def test_for_the_rest_after_a_release(self):
        for blocks in (3, 4):
            _, outbox = full([1012, 16, 1012, 1012, 1012], blocks)
            now = self.moves(outbox, lambda shelf: shelf.release(1))
            self.assertEqual((now.offset, [held[0] for held in now.held]), (4096, [0, 2, 3, 4]))
            self.assertEqual(len(on_flash(outbox)), 4)


class TestEmpty(unittest.TestCase):
    def test_one_that_stays_in_a_full_ring_is_known_to_be_lent(self):
        """The block before it takes no erase, and the ring has no room to say that it is void."""
        flash, outbox = aside(1, 5, Deaf)
        own = outbox._shelf._now.block
        while outbox._after(outbox._after(outbox._head)) != outbox._tail:
            publish(outbox)
        flash.dead = (own,)
        self.assertEqual((outbox.shelf().release(0), outbox.aside), (status.OK, 0))
        self.assertTrue(len(outbox.lent) == 2 and own in outbox.lent)
        self.assertEqual((set(outbox._out), outbox.left_out), (set(outbox.lent), 0))
        again = Outbox(flash)
        self.assertEqual((again.mount(), set(again.lent)), (status.OK, set(outbox.lent)))

    def test_in_a_ring_of_three_a_bad_block_is_left_out_wherever_the_head_is(self):
        flash, outbox = aside(1, 3, Deaf)
        own = outbox._shelf._now.block
        while outbox._head != 2:
            publish(outbox)
            outbox.discard_through(outbox.next_seq - 2)
        outbox.discard_through(outbox.next_seq - 1)
        flash.dead = (own,)
        self.assertEqual((outbox.shelf().release(0), outbox.left_out), (status.OK, 1))
        self.assertEqual((outbox._out, outbox._is_worn_out), ((own,), False))


class TestVoid(unittest.TestCase):
    """A block of the shelf takes no erase: the ring begins a sector that says so."""

    def test_the_state_note_goes_on(self):
        flash = faulty(6, kind=Deaf)
        outbox = formatted(flash=flash, outbox_class=NotedOutbox)[1]
        publish(outbox, 2)
        self.assertEqual(outbox.set_note(b"a note", 6), status.OK)
        self.assertEqual(outbox.shelf().put(0), status.OK)
        flash.dead = (outbox._shelf._now.block,)
        head = outbox._head
        self.assertEqual(outbox.shelf().release(0), status.OK)
        self.assertNotEqual(outbox._head, head)
        outbox = NotedOutbox(flash)
        self.assertEqual((outbox.mount(), outbox.note_length), (status.OK, 6))
        self.assertEqual(bytes(outbox.note[:6]), b"a note")

    def test_a_driver_that_calls_the_outbox_finds_it_busy(self):
        flash, outbox = aside(1, 6, Deaf)
        flash.dead = (outbox._shelf._now.block,)
        erase, answers = flash.ioctl, []

        def calling(op, block):
            if op == ERASE:
                answers.append(outbox.append(b"t", b"", 0))
            return erase(op, block)

        flash.ioctl = calling
        self.assertEqual(outbox.shelf().release(0), status.OK)
        self.assertTrue(len(answers) > 3 and set(answers) == {status.BUSY})

    def test_the_head_is_made_sure_of_first(self):
        flash, outbox = aside(1, 6, Deaf)
        own, head = outbox._shelf._now.block, outbox._head
        while outbox._head == head:
            publish(outbox)
            outbox.discard_through(outbox.next_seq - 3)
        outbox = looking(Outbox)(flash)
        self.assertEqual((outbox.mount(), outbox._doubt), (status.OK, 2))
        head, flash.dead = outbox._head, (own,)
        self.assertEqual(outbox.shelf().release(0), status.OK)
        self.assertNotEqual(outbox._head, head)
        sector = image_of(flash)[4096 * head : 4096 * head + 4096]
        self.assertEqual(sector[-32:], sector[:32])  # else it may be gone, and the ring without one

    def test_only_for_a_block_that_has_a_shelf(self):
        flash, outbox = formatted(flash=faulty(4, kind=Deaf))
        while flash.block_erases[3] < 2 or outbox._head:  # the next block has an old sector
            publish(outbox)
            outbox.discard_through(outbox.next_seq - 2)
        flash.dead = (1,)
        self.assertEqual(outbox.shelf().put(outbox.next_seq - 1), status.OK)
        self.assertEqual((outbox._out, outbox.lent, outbox.left_out), ((1, 2), (), 1))
        head = outbox._head
        self.assertEqual((outbox.shelf().release(0), outbox._head), (status.OK, head))

    def test_messages_go_on_leaving_the_block_that_replaced_it(self):
        flash, outbox = aside(3, 8, Dying)
        flash.dead = (outbox._shelf._now.block,)
        _, now = moved(outbox)
        erases = flash.erases
        self.assertEqual(outbox.shelf().release(0), status.OK)
        self.assertEqual((outbox._shelf._now.block, flash.erases), (now, erases))


def on_flash(outbox):
    return scan(outbox, outbox._shelf._now.block).held


if __name__ == "__main__":
    unittest.main()

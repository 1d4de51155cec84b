"""What the outbox keeps for the next record, the next sector and the next start: small fields, each
of which no other test would miss.
"""

import sys
import unittest

import outpost
from fake_flash import flash_in_ram, image_of, looking
from faulty_flash import FaultyFlash, faulty, formatted, loaded, payload_of, publish
from outpost import status
from outpost.checksum import crc30
from outpost.flash import ring
from outpost.outbox import Outbox
from outpost.state_note import NotedOutbox

HEADER = 32
SETTLE = "outpost.flash.settle"


class Numbered(FaultyFlash):
    """Notes the number of each header that is programmed."""

    def __init__(self, *args):
        FaultyFlash.__init__(self, *args)
        self.numbers = []

    def writeblocks(self, block, buf, offset=None):
        if not offset and bytes(buf[:2]) == b"OB":
            self.numbers.append(int.from_bytes(bytes(buf[4:7]), "little"))
        FaultyFlash.writeblocks(self, block, buf, offset)


def in_next_sector(outbox):
    """Stores messages until a sector begins with one."""
    head = outbox._head
    while outbox._head == head:
        publish(outbox)
        outbox.discard_through(outbox.next_seq - 3)


class TestNumbers(unittest.TestCase):
    def test_no_number_is_written_twice_whatever_fails(self):
        for fault in ("programs_fail", "programs_lost"):
            for times in range(1, 5):
                flash = faulty(5, kind=Numbered)
                outbox = formatted(flash=flash)[1]
                in_next_sector(outbox)
                while outbox._offset + 416 <= 4096:
                    publish(outbox)
                setattr(flash, fault, times)
                for _ in range(30):
                    outbox.append(b"t", payload_of(outbox.next_seq), 400)
                    outbox.discard_through(outbox.next_seq - 3)
                self.assertEqual(len(flash.numbers), len(set(flash.numbers)), (fault, times))
                self.assertTrue(len(flash.numbers) > 3)


class TestCopy(unittest.TestCase):
    def test_it_is_at_the_last_place_of_the_alignment(self):
        for align in (4, 32, 64, 128, 256):
            flash = faulty(3)
            outbox = Outbox(flash, 512, align)
            outbox.format(b"01234567")
            at = 4096 - max(HEADER, align)
            image = image_of(flash)[:4096]
            self.assertEqual(image[at : at + HEADER], image[:HEADER], align)
            self.assertEqual(image[HEADER:at], b"\xff" * (at - HEADER), align)
            flash.put(0, bytes(HEADER))
            again = looking(Outbox)(flash, 512, align)
            self.assertEqual((again.mount(), again.mended > 0), (status.OK, True), align)

    def test_a_record_ends_before_it(self):
        for align in (4, 64, 256):
            outbox = Outbox(faulty(3), 512, align)
            outbox.format(b"01234567")
            at = 4096 - max(HEADER, align)
            while outbox._head == 0:
                last = outbox._offset
                publish(outbox)
            self.assertTrue(last <= at, align)


class TestHeader(unittest.TestCase):
    def setUp(self):
        self.flash, self.outbox = formatted()
        publish(self.outbox)
        self.flash.put(4064, b"\xff" * 32)  # no copy of the header
        self.header = image_of(self.flash)[:HEADER]

    def is_header(self, header, magic=0x424F):
        self.outbox.buffer[:HEADER] = header
        return self.outbox._is_header(magic)

    def signed(self, header, top=None):
        """With its CRC, whose highest byte is `top`."""
        header = bytearray(header)
        for number in range(2000):
            header[16:18] = number.to_bytes(2, "little")
            crc = crc30(0, header, 0, 28)
            if top in (None, crc >> 24):
                break
        header[28:32] = crc.to_bytes(4, "little")
        return header

    def test_the_two_highest_bits_of_its_crc_are_0(self):
        for top in (0, 1, 0x20, 0x3E, 0x3F):
            header = self.signed(self.header, top)
            self.assertEqual((header[31], self.is_header(header)), (top, True))
            for more in (0x40, 0x80, 0xC0):
                header[31] = top | more
                self.assertFalse(self.is_header(header), (top, more))

    def test_of_another_magic_it_is_none(self):
        header = self.signed(b"OS" + self.header[2:])
        self.assertEqual((self.is_header(header), self.is_header(header, 0x534F)), (False, True))
        for at in (24, 25, 29, 30):
            changed = bytearray(self.header)
            changed[at] = 0xF0
            self.assertFalse(self.is_header(changed))
        changed[25] = 0xFF
        self.assertTrue(self.is_header(self.signed(changed)))

    def test_any_one_bit_of_it_is_mended_without_a_copy(self):
        for bit in range(0, 8 * HEADER, 3):  # 0 and 255 as well
            at = bit >> 3
            self.flash.put(at, bytes((self.header[at] ^ 1 << (bit & 7),)))
            outbox = looking(Outbox)(self.flash)
            self.assertEqual((outbox.mount(), outbox.mended, outbox.next_seq), (status.OK, 1, 1))
            self.assertTrue(outbox._load_header(0))
            self.assertEqual(bytes(outbox.buffer[:HEADER]), self.header, bit)
            self.flash.put(at, self.header[at : at + 1])

    def test_two_bits_are_not(self):
        for bits in ((0, 1), (3, 14), (7, 100), (30, 31), (40, 255), (254, 255)):
            header = bytearray(self.header)
            for bit in bits:
                header[bit >> 3] ^= 1 << (bit & 7)
            self.flash.put(0, header)
            self.assertFalse(self.outbox._load_header(0), bits)

    def test_it_says_the_alignment(self):
        for log2 in range(2, 9):
            flash = faulty(3)
            outbox = Outbox(flash, 512, 1 << log2)
            self.assertEqual((outbox.format(b"01234567"), image_of(flash)[3]), (status.OK, log2))

    def test_erases_are_counted_one_by_one(self):
        flash = faulty(4)
        outbox = Outbox(flash)
        outbox.format(b"01234567")
        for _ in range(80):
            publish(outbox)
            outbox.discard_through(outbox.next_seq - 2)
        self.assertEqual((outbox.erases, outbox.erases > 4), (flash.erases, True))


class TestRecord(unittest.TestCase):
    def test_the_two_highest_bits_of_its_crc_are_0(self):
        outbox = formatted()[1]
        for wanted in (0, 1, 0x3E, 0x3F):
            for number in range(2000):
                record = bytes((0x11, 1, 3, 0)) + bytes(8) + b"t" + b"%03d" % (number % 1000)
                crc = crc30(number, record, 0, 16)
                if crc >> 24 == wanted:
                    break
            outbox.buffer[:20] = record + crc.to_bytes(4, "little")
            for filled in (20, 24, 768):
                outbox._filled = filled
                self.assertTrue(outbox._fits(0, number))
                self.assertEqual(outbox._record_size, 20)
                self.assertFalse(outbox._fits(0, number + 1))
            outbox._filled = 19
            self.assertFalse(outbox._fits(0, number))
            outbox._filled = 20
            for more in (0x40, 0x80):
                outbox.buffer[19] = wanted | more
                self.assertFalse(outbox._fits(0, number), (wanted, more))

    def test_one_that_ends_with_its_block_is_read(self):
        for align, most in ((4, 4064), (64, 4032), (256, 3840)):
            flash = faulty(3)
            outbox = Outbox(flash, most, align)
            outbox.format(b"01234567")
            publish(outbox, 2, most - 17)
            again = looking(Outbox)(flash, most, align)
            self.assertEqual((again.mount(), again.next_seq, again.damaged), (status.OK, 2, 0))
            for seq in (0, 1):
                self.assertEqual((again.load(seq), again.loaded_seq), (status.OK, seq))
                self.assertEqual(loaded(again), payload_of(seq, most - 17))


class TestWritten(unittest.TestCase):
    def test_each_record_has_the_count_of_its_boot(self):
        flash, outbox = formatted()
        first = outbox.boot
        for boot in range(first, first + 3):
            at = outbox._offset
            publish(outbox)
            record = image_of(flash)[at : at + 12]
            self.assertEqual((outbox.boot, int.from_bytes(record[10:], "little")), (boot, boot))
            outbox = looking(Outbox)(flash)
            self.assertEqual(outbox.mount(), status.OK)

    def test_what_was_just_stored_is_loaded_without_a_read(self):
        flash, outbox = formatted()
        for number, flags in enumerate((0x10, 0x20, 0x50, 0x60)):
            topic, payload = b"t" * (number + 1), payload_of(number, 200 + number)
            self.assertEqual(outbox.append(topic, payload, len(payload), flags), status.OK)
            flash.reads_fail = 1
            self.assertEqual((outbox.load(number), outbox.loaded_seq), (status.OK, number))
            flash.reads_fail = 0
            self.assertEqual((outbox.flags, outbox.topic_length), (flags, number + 1))
            self.assertEqual(loaded(outbox), payload)

    def test_after_another_record_the_buffer_has_no_message(self):
        for fault in ("", "programs_fail", "programs_lost"):
            flash, outbox = formatted()
            publish(outbox, 3)
            outbox.discard(0)
            if fault:
                setattr(flash, fault, 9)
                outbox.append(b"t", b"x" * 300, 300)
                setattr(flash, fault, 0)
            else:
                self.assertEqual(outbox.save_state(), status.OK)
            self.assertEqual(outbox.loaded_seq, -1)
            for seq in (1, 2):
                self.assertEqual((outbox.load(seq), outbox.loaded_seq), (status.OK, seq))
                self.assertEqual(loaded(outbox), payload_of(seq))


class TestNextRecord(unittest.TestCase):
    """The cursor at records that are made by hand."""

    def made(self, between, lost, align=4):
        """Message 0, something else, and message 1 + lost."""
        flash = faulty(3)
        outbox = Outbox(flash, 512, align)
        outbox.format(b"01234567")
        self.start = at = max(HEADER, align)
        flash.put(0, b"\xff" * 4096)
        for seq in (0, 1 + lost):
            record = bytes((0x11, 1, 3, 0)) + bytes(8) + b"t" + b"%03d" % seq
            crc = crc30(outbox._salt ^ seq, record, 0, 16)
            flash.put(at, record + crc.to_bytes(4, "little"))
            at += -(-20 // align) * align
            if not seq:
                flash.put(at, between)
                at += len(between)
        self.after = at
        outbox._cursor_block, outbox._cursor_offset, outbox._cursor_seq = 0, self.start, 0
        outbox._cursor_salt, outbox._cursor_end = outbox._salt, -1
        return outbox

    def found(self, outbox):
        """[(number after it, offset after it), ...]"""
        found = []
        while outbox._next_record() >= 0:
            found.append((outbox._cursor_seq, outbox._cursor_offset))
        return found

    def test_behind_damage_up_to_seven_numbers_may_be_missing(self):
        for align in (4, 32, 256):
            for between in (b"\0" * 256, b"\xff" * 256, b"\xff" * 512 + b"\x11" * 256):
                for lost in (0, 1, 6, 7, 8, 9):
                    outbox = self.made(between, lost, align)
                    wanted = [(1, self.start + -(-20 // align) * align)]
                    if lost < 8:
                        wanted.append((2 + lost, self.after))
                    self.assertEqual(self.found(outbox), wanted, (align, between[:1], lost))

    def test_without_damage_none_may_be(self):
        for lost in (0, 1, 2):
            outbox = self.made(b"", lost)
            self.assertEqual(len(self.found(outbox)), 2 - (lost > 0), lost)

    def test_none_from_the_end_on(self):
        for end, count in ((0, 0), (1, 1), (3, 1), (4, 2), (9, 2)):
            outbox = self.made(b"\0" * 64, 2)
            outbox._cursor_end = end
            self.assertEqual(len(self.found(outbox)), count, end)

    def test_where_the_next_one_may_begin(self):
        outbox = formatted()[1]
        for align in (4, 16, 64):
            outbox._align = align
            for filled in (256, 512):
                outbox._filled = filled
                for used in (0, 64, 128, filled - 64, filled):
                    outbox.buffer[:filled] = b"\xff" * filled
                    if used < filled:
                        outbox.buffer[used] = 1
                    for at in (0, 64, 128):
                        if at <= used:
                            self.assertEqual(outbox._count_erased(at), used - at, (align, used))


class TestReleases(unittest.TestCase):
    def test_one_released_after_one_that_is_lost_is_not_shown(self):
        flash, outbox = formatted()
        publish(outbox, 5)
        for seq in (1, 2):
            outbox.discard(seq)
        outbox.save_state()
        flash.put(HEADER + 20, bytes(8))
        again = looking(Outbox)(flash)
        self.assertEqual((again.mount(), again.oldest_seq, again.acked), (status.OK, 0, 3))
        self.assertEqual((again.load(0), again.loaded_seq), (status.OK, 3))
        self.assertEqual(loaded(again), payload_of(3))
        self.assertEqual((again.oldest_seq, again.acked, again.unreadable), (3, 0, 1))

    def test_a_state_that_a_record_has_carried_is_not_saved_again(self):
        for released in (0, 1, 2):
            flash, outbox = formatted()
            publish(outbox, 4)
            outbox.discard(released)
            publish(outbox)
            programs = flash.programs
            self.assertEqual((outbox.save_state(), outbox.unsaved()), (status.OK, 0))
            self.assertEqual(flash.programs, programs, released)
            outbox.discard(3)
            self.assertEqual(outbox.save_state(), status.OK)
            self.assertEqual(flash.programs, programs + 1, released)
            self.assertEqual(outbox.save_state(), status.OK)
            self.assertEqual(flash.programs, programs + 1, released)


class TestTornBlocks(unittest.TestCase):
    """Block 0 is released, 1 is the head, with more than one record. The others are free."""

    def setUp(self):
        self.flash, outbox = formatted(6)
        in_next_sector(outbox)
        publish(outbox, 3)
        outbox.discard_through(outbox.next_seq - 2)
        outbox.save_state()
        self.header = image_of(self.flash)[4096 : 4096 + HEADER]

    def appended(self, *torn):
        """A message is appended after a start, with something torn in these blocks. Returns the
        outbox, the blocks that were erased, and how many programs there were."""
        for block, data in torn:
            self.flash.put(4096 * block, data)
        erases, programs = self.flash.block_erases[:], self.flash.programs
        outbox = looking(Outbox)(self.flash)
        self.assertEqual(outbox.mount(), status.OK)
        self.no, self.doubt = outbox._sector_no, outbox._doubt
        publish(outbox)
        after = self.flash.block_erases
        erased = [block for block in range(6) if after[block] > erases[block]]
        return outbox, erased, self.flash.programs - programs

    def test_without_one_nothing_is_erased_and_no_number_is_passed_over(self):
        outbox, erased, programs = self.appended()
        self.assertEqual((self.doubt, erased, programs), (0, [], 1))
        self.assertEqual((outbox._head, outbox._sector_no), (1, self.no))

    def test_each_is_erased_before_the_record_and_no_copy_is_made(self):
        outbox, erased, programs = self.appended((2, b"OB"), (4, bytes(40)))
        self.assertEqual((self.doubt, erased, programs), (1, [2, 4], 1))
        self.assertEqual((outbox._head, outbox._limit, outbox._ready), (1, 4096, 2))
        self.assertEqual(outbox._sector_no, self.no + 2 * 6 + 2)

    def test_a_header_that_is_newer_than_the_head_and_has_no_record_is_torn(self):
        for no in (self.no_of(1) + 1, self.no_of(1) + 9):
            self.setUp()
            _, erased, _ = self.appended((3, self.header_of(no)), (4, bytes(40)))
            self.assertEqual((self.doubt, erased), (1, [3, 4]), no)

    def no_of(self, block):
        return int.from_bytes(image_of(self.flash)[4096 * block + 4 : 4096 * block + 7], "little")

    def header_of(self, no):
        header = bytearray(self.header)
        header[4:7] = no.to_bytes(3, "little")
        header[28:32] = crc30(0, header, 0, 28).to_bytes(4, "little")
        return bytes(header)

    def test_one_that_refuses_its_erase_has_twice_as_many_numbers_passed_over(self):
        self.flash.erases_fail = 2
        outbox, erased, _ = self.appended((3, bytes(40)), (4, bytes(40)))
        self.assertEqual((erased, outbox._out), ([2, 4], (3,)))  # 2: for the record
        self.assertEqual((outbox._head, outbox._sector_no), (2, self.no + 2 * (2 * 6 + 2) + 1))

    def test_with_a_doubt_of_the_header_alone_no_number_is_passed_over(self):
        self.flash, outbox = formatted(6)
        while outbox._head == 0:
            publish(outbox)
        outbox, erased, programs = self.appended()
        self.assertEqual((self.doubt, erased, programs), (2, [], 2))
        self.assertEqual((outbox._head, outbox._sector_no), (1, self.no))

    def test_where_numbers_were_passed_over_the_next_block_stays_until_a_sector_has_them(self):
        self.flash, outbox = formatted(6)
        while outbox._offset + 512 <= 4096:
            publish(outbox)
        outbox, erased, _ = self.appended((1, bytes(4096)), (3, bytes(40)))
        self.assertEqual((self.doubt, erased), (5, [1, 3]))
        self.assertEqual((outbox._head, self.flash.block_erases[1]), (1, 1))


class Asking(FaultyFlash):
    """Calls `ask` in each program."""

    ask = None

    def writeblocks(self, block, buf, offset=None):
        if self.ask:
            self.ask()
        FaultyFlash.writeblocks(self, block, buf, offset)


class TestProof(unittest.TestCase):
    """A start makes sure of the newest message by a state record and a confirmation."""

    def stored(self, outbox_class=Outbox):
        self.flash, outbox = formatted(flash=faulty(4, kind=Asking), outbox_class=outbox_class)
        publish(outbox)
        return outbox

    def started(self, outbox):
        """Returns the outbox after a start, and the kinds and lengths of its two records, the
        second of which is right behind the first."""
        self.before = outbox._offset
        again = type(outbox)(self.flash)
        self.assertEqual(again.mount(), status.OK)
        image, at, found = image_of(self.flash)[4096 * again._head :], self.before, []
        if again._head != outbox._head:
            at = HEADER
        while image[at] in (2, 0x42):
            found.append((image[at], image[at + 2]))
            at += 16 + image[at + 2] + (-image[at + 2]) % 4
        self.assertEqual(again._offset, at)
        return again, found

    def test_two_records_once(self):
        again, found = self.started(self.stored())
        self.assertEqual((found, again._head), ([(2, 0), (0x42, 0)], 0))
        programs = self.flash.programs
        third = Outbox(self.flash)
        self.assertEqual((third.mount(), third.load(0)), (status.OK, status.OK))
        self.assertEqual((self.flash.programs, loaded(third)), (programs, payload_of(0)))

    def test_the_first_of_them_carries_the_note_and_the_releases(self):
        outbox = self.stored(NotedOutbox)
        publish(outbox, 2)
        outbox.set_note(b"a note", 6)
        outbox.discard(1)
        publish(outbox)
        again, found = self.started(outbox)
        self.assertEqual(found, [(2, 6), (0x42, 0)])
        self.assertEqual((again.oldest_seq, again.acked), (0, 1))
        self.assertEqual(bytes(again.note[: again.note_length]), b"a note")
        programs = self.flash.programs
        self.assertEqual((again.save_state(), self.flash.programs), (status.OK, programs))

    def test_they_go_into_the_last_bytes_of_a_sector(self):
        outbox, end = self.stored(), 4096 - HEADER  # the copy follows
        while outbox._offset + 416 + 32 <= end:
            publish(outbox)
        length = end - outbox._offset - 32 - 17
        self.assertEqual(outbox.append(b"t", bytes(length), length), status.OK)
        again, found = self.started(outbox)
        self.assertEqual((found, again._head, again._offset), ([(2, 0), (0x42, 0)], 0, end))

    def test_what_does_not_read_back_is_written_again_in_the_next_sector(self):
        for fault in ("programs_fail", "programs_lost"):
            outbox = self.stored()
            setattr(self.flash, fault, 1)
            again, found = self.started(outbox)
            self.assertEqual((found, again._head), ([(2, 0), (0x42, 0)], 1), fault)
            self.assertEqual(again.storage_errors, 1, fault)

    def test_after_three_failures_the_message_is_shown_all_the_same(self):
        outbox = self.stored()
        self.flash.programs_fail = 9
        again = Outbox(self.flash)
        self.assertEqual((again.mount(), again.next_seq), (status.OK, outbox.next_seq))
        self.assertEqual((self.flash.programs_fail, again.storage_errors), (6, 3))
        self.assertEqual((again.load(0), loaded(again)), (status.OK, payload_of(0)))

    def test_a_call_from_inside_is_refused(self):
        outbox, said = self.stored(), []
        again = Outbox(self.flash)
        self.flash.ask = lambda: said.append(again.append(b"t", b"", 0))
        self.assertEqual(again.mount(), status.OK)
        self.assertEqual(said, [status.BUSY, status.BUSY])
        self.flash.ask = None
        publish(again)
        self.assertEqual(again.next_seq, outbox.next_seq + 1)


class Earlier(Outbox):
    """Writes headers without the geometry, as earlier firmware did."""

    def _put_header(self):
        Outbox._put_header(self)
        self.buffer[7] &= 0xBF
        self._salt = crc30(0, self.buffer, 0, 28)
        self.buffer[28:32] = self._salt.to_bytes(4, "little")


class TestGeometry(unittest.TestCase):
    """What a smaller outbox finds of a larger one."""

    def statuses(self, lengths, sizes, damage=None, blocks=4):
        """After messages of these lengths, of which none is released: what outboxes with these
        record_bytes say."""
        flash = flash_in_ram(blocks)
        outbox = Outbox(flash, 512)
        outbox.format(b"01234567")
        for length in lengths:
            self.assertEqual(outbox.append(b"", bytes(length), length), status.OK)
        self.image = image_of(flash)
        if damage:
            self.image = damage(bytearray(self.image))
        return [self.opened(size).mount() for size in sizes]

    def opened(self, record_bytes):
        return looking(Outbox)(flash_in_ram(len(self.image) // 4096, 1, self.image), record_bytes)

    def test_a_record_of_record_bytes_is_read_and_one_that_is_longer_is_not(self):
        for lengths in ((84,), (20, 84), (84, 20), (20, 84, 20), (84,) * 50):
            found = self.statuses(lengths, (64, 96, 100, 104, 512))
            short, ok = status.SHORT_RECORDS, status.OK
            self.assertEqual(found, [short, short, ok, ok, ok], lengths)

    def test_the_only_long_one_may_be_in_any_sector_and_at_its_end(self):
        for at in (0, 1, 30, 33, 34, 60, 67, 68, 100):
            lengths = [104] * 101
            lengths[at] = 300
            found = self.statuses(lengths, (120, 200, 316), blocks=5)
            self.assertEqual(found, [status.SHORT_RECORDS] * 2 + [status.OK], at)

    def test_what_is_torn_is_not_taken_for_a_longer_one(self):
        for kind in (0x11, 2, 3, 0x13, 0x91, 0x15):
            for length in (100, 300, 4000, 65535):

                def tear(image, kind=kind, length=length):
                    at = HEADER + 40
                    image[at] = kind
                    image[at + 2 : at + 4] = length.to_bytes(2, "little")
                    return bytes(image)

                found = self.statuses((24,), (64, 128), tear)
                self.assertEqual(found, [status.OK, status.OK], (kind, length))

    def test_the_last_bytes_of_a_sector_are_a_prefix_without_its_record(self):
        for at in (4096 - 32 - 4, 4096 - 12, 4096 - 4):

            def tear(image, at=at):
                image[at] = 0x11
                return bytes(image)

            self.assertEqual(self.statuses((24,), (64,), tear), [status.OK], at)

    def test_a_head_in_which_all_are_released_is_still_searched(self):
        self.statuses((20, 300, 20), (128,))
        outbox = Outbox(flash_in_ram(4, 1, self.image), 512)
        outbox.mount()
        outbox.discard_through(2)
        outbox.save_state()
        self.image = image_of(outbox._device)
        self.assertEqual(self.opened(128).mount(), status.SHORT_RECORDS)

    def test_a_device_has_as_many_blocks_as_the_header_says_or_more(self):
        self.statuses((20,), (), blocks=5)
        whole = self.image
        for blocks, said in ((2, -16), (4, -16), (5, 0), (6, 0)):
            self.image = (whole + b"\xff" * 4096)[: 4096 * blocks]
            self.assertEqual(self.opened(512).mount(), said, blocks)

    def test_a_ring_of_hundreds_of_blocks(self):
        self.statuses((20,), (), blocks=257)
        whole = self.image
        for blocks, said in ((100, -16), (256, -16), (257, 0)):
            self.image = whole[: 4096 * blocks]
            self.assertEqual(self.opened(512).mount(), said, blocks)

    def test_a_ring_on_a_device_that_has_grown(self):
        self.statuses((20,), (), blocks=257)
        flash = flash_in_ram(513)
        flash.writeblocks(0, self.image[:4096], 0)
        for _ in range(2):
            outbox = Outbox(flash)
            self.assertEqual(outbox.mount(), status.OK)
            head = outbox._head
            while outbox._head == head:
                self.assertEqual(outbox.append(b"", bytes(400), 400), status.OK)

    def test_a_header_of_earlier_firmware_says_neither(self):
        """It has a boot count there, and other sectors than the head have longer records."""
        for boot, lengths in ((0x0103, (20,)), (0x0003, (900,) * 4 + (20,) * 80)):
            flash = flash_in_ram(4)
            outbox = Earlier(flash, 1024)
            outbox._geometry = boot
            outbox.format(b"01234567")
            for length in lengths + (20, 20):
                self.assertEqual(outbox.append(b"", bytes(length), length), status.OK)
            self.image = image_of(flash)
            self.assertEqual(self.opened(1024).mount(), status.OK, boot)
            said = status.SHORT_RECORDS if 900 in lengths else status.OK
            self.assertEqual(self.opened(64).mount(), said, boot)

    def test_a_larger_outbox_went_on_in_the_sector_of_a_smaller_one(self):
        """Whose header says that records are short. The long one is the last, or one is behind."""
        for behind in (0, 1):
            flash = flash_in_ram(4)
            Outbox(flash, 128).format(b"01234567")
            outbox = Outbox(flash, 1024)
            outbox.mount()
            for length in (900, 20)[: 1 + behind]:
                self.assertEqual(outbox.append(b"", bytes(length), length), status.OK)
            self.image = image_of(flash)
            self.assertEqual(self.opened(128).mount(), status.SHORT_RECORDS, behind)

    def test_the_header_says_how_many_blocks_there_are_and_how_long_records_may_be(self):
        for blocks in (2, 5):
            for record_bytes, power in ((64, 0), (65, 1), (128, 1), (512, 3), (513, 4), (4064, 6)):
                flash = flash_in_ram(blocks)
                Outbox(flash, record_bytes).format(b"01234567")
                found = int.from_bytes(image_of(flash)[26:28], "little")
                self.assertEqual(found, blocks - 1 | power << 12, (blocks, record_bytes))


class TestLongerThanTheBuffer(unittest.TestCase):
    """Records that are made by hand: none of them is in the buffer of a small outbox."""

    def sector(self, *sizes):
        """Begins a ring of two, whose sector has messages of these sizes."""
        flash = flash_in_ram(2)
        outbox = Outbox(flash, 4064)
        outbox.format(b"01234567")
        for size in sizes:
            self.assertEqual(outbox.append(b"", bytes(size - 16), size - 16), status.OK)
        self.salt, self.at, self.seq = outbox._salt, outbox._offset, outbox.next_seq
        self.image = bytearray(image_of(flash))
        self.image[4064:4096] = b"\xff" * 32  # no copy of the header

    def put(self, kind, size, topic=0, top=0, wanted=None):
        """Appends a record. top: what its last byte has besides; wanted: what it must be."""
        for number in range(2000):
            data = bytearray(size)
            data[0], data[1] = kind, topic
            data[2:4] = (size - 16 - topic).to_bytes(2, "little")
            data[12:14] = number.to_bytes(2, "little")
            crc = crc30(self.salt ^ self.seq, data, 0, size - 4)
            if wanted is None or crc >> 24 == wanted:
                break
        data[size - 4 :] = crc.to_bytes(4, "little")
        data[-1] |= top
        self.image[self.at : self.at + size] = data

    def said(self, record_bytes=64):
        flash = flash_in_ram(2, 1, bytes(self.image))
        return looking(Outbox)(flash, record_bytes).mount()

    def test_of_each_kind_that_there_is(self):
        for kind, said in ((1, -15), (2, -15), (3, -15), (0x51, -15), (0, 0), (4, 0), (0x81, 0)):
            for topic in (0, 200):
                self.sector(36)
                self.put(kind, 2000, topic)
                self.assertEqual(self.said(), said, (kind, topic))

    def test_the_two_top_bits_of_its_crc_are_0(self):
        for top, wanted, said in ((0, 0x3F, -15), (0x40, 0, 0), (0x80, 5, 0), (0, 0, -15)):
            self.sector(36)
            self.put(1, 2000, 0, top, wanted)
            self.assertEqual(self.said(), said, (top, wanted))

    def test_up_to_the_last_byte_of_the_block_and_no_further(self):
        self.sector(36)
        size = 4096 - self.at
        self.put(1, size)
        self.assertEqual(self.said(), status.SHORT_RECORDS)
        for more in range(1, 12):
            self.image[self.at + 2 : self.at + 4] = (size - 16 + more).to_bytes(2, "little")
            self.assertEqual(self.said(), status.OK, more)

    def test_what_has_only_its_lengths_is_torn(self):
        self.sector(36)
        self.put(1, 2000)
        self.image[self.at + 100 : self.at + 3000] = bytes(2900)
        self.assertEqual(self.said(), status.OK)

    def test_one_that_just_does_not_fit_where_it_begins(self):
        self.sector(220)
        self.assertEqual(self.at, 252)
        self.put(1, 264)
        self.assertEqual(self.said(260), status.SHORT_RECORDS)

    def test_it_is_found_behind_damage_and_a_record_at_the_start_of_a_page(self):
        self.sector(224, 60)
        self.image[60] ^= 3
        self.put(1, 3000)
        self.assertEqual(self.said(), status.SHORT_RECORDS)

    def test_a_full_sector_with_damage_has_none(self):
        for rest in (0, 4, 12, 16):
            self.sector(*[60] * 66, 4096 - 32 - 60 * 66 - rest - 32)
            self.assertEqual(self.at, 4064 - rest)
            self.put(1, 32)
            self.image[32 + 60 + 20] ^= 3
            self.assertEqual(self.said(128), status.OK, rest)


class TestDoubtOfTheHeader(unittest.TestCase):
    """The newest sector has one record: its header may be torn."""

    def mounted(self):
        self.flash, outbox = formatted()
        in_next_sector(outbox)
        again = looking(Outbox)(self.flash)
        self.assertEqual((again.mount(), again._doubt), (status.OK, 2))
        return again

    def test_it_has_a_copy_before_another_block_is_erased(self):
        """That block may have the only header of the ring that is whole."""
        again = self.mounted()
        self.assertTrue(again.erase_ahead())
        image = image_of(self.flash)[4096:8192]
        self.assertEqual((again._doubt, image[4064:]), (0, image[:HEADER]))

    def test_what_settles_it_is_unloaded(self):
        sys.modules["outpost.nothing"] = outpost
        ring.unload("outpost.nothing")
        if sys.modules.pop("outpost.nothing", None):
            self.skipTest("optional: the proof's modules stay loaded (`power_loss.py`)")
        again = self.mounted()
        publish(again)
        self.assertFalse(SETTLE in sys.modules)


class TestWithoutMemory(unittest.TestCase):
    def test_what_cannot_be_settled_is_left_behind(self):
        """The first record since mount() goes into a fresh sector."""
        flash, outbox = formatted()
        in_next_sector(outbox)
        again = looking(Outbox)(flash)
        self.assertEqual(again.mount(), status.OK)
        self.assertTrue(again._doubt)
        head = again._head
        module = type("Settling", (), {"settle": staticmethod(no_memory)})
        kept = sys.modules.pop(SETTLE, None)
        sys.modules[SETTLE] = outpost.flash.settle = module
        try:
            publish(again)
        finally:
            if kept:
                sys.modules[SETTLE] = outpost.flash.settle = kept
            else:
                sys.modules.pop(SETTLE, None)
                outpost.__dict__.pop("settle", None)
        self.assertEqual(again._head, head + 1)
        self.assertEqual(again._doubt, 0)
        found = looking(Outbox)(flash)
        self.assertEqual((found.mount(), found.next_seq), (status.OK, again.next_seq))


def no_memory(outbox):
    raise MemoryError


class TestJump(unittest.TestCase):
    """The head has no room for the largest record, and something torn is in the block after it."""

    def _mounted(self, is_empty):
        flash, outbox = formatted()
        while outbox._offset + 512 <= 4096:
            publish(outbox)
        if is_empty:
            outbox.discard_through(outbox.next_seq - 1)
        outbox.save_state()
        flash.put(4096, bytes(4096))
        again = looking(Outbox)(flash)
        self.assertEqual((again.mount(), again.next_seq), (status.OK, outbox.next_seq + 254))
        return outbox, again

    def test_an_empty_outbox_begins_after_it(self):
        _, again = self._mounted(True)
        self.assertEqual((again.oldest_seq, again.load(0)), (again.next_seq, status.EMPTY))
        publish(again)
        self.assertEqual((again.load(0), again.loaded_seq), (status.OK, again.next_seq - 1))
        self.assertEqual((again.oldest_seq, again.unreadable), (again.next_seq - 1, 0))

    def test_one_that_holds_messages_keeps_them(self):
        outbox, again = self._mounted(False)
        self.assertEqual((again.oldest_seq, again.load(0)), (0, status.OK))
        publish(again)
        self.assertEqual((again.load(outbox.next_seq), again.unreadable), (status.OK, 0))
        self.assertEqual(again.loaded_seq, outbox.next_seq + 254)


if __name__ == "__main__":
    unittest.main()

import random
import unittest

from fake_flash import flash_in_ram, image_of
from nor_flash import NorFlash, NorRuleError
from outpost import status
from outpost.outbox import Outbox

TOPIC = b"outpost/board-1/data"


def fresh(blocks=4, **geometry):
    flash = flash_in_ram(blocks, geometry.get("page_bytes", 256))
    outbox = Outbox(flash, **geometry)
    assert outbox.format(b"01234567") == status.OK
    return flash, outbox


def again(flash, **geometry):
    """As after a reset."""
    outbox = Outbox(flash, **geometry)
    assert outbox.mount() == status.OK
    return outbox


def peek(flash, **geometry):
    """As after a reset, on a copy of the chip: load() may program a record there."""
    twin = flash_in_ram(flash.blocks, flash.unit_bytes, image_of(flash))
    return again(twin, **geometry)


def loaded_payload(outbox):
    at = outbox.topic_at + outbox.topic_length
    return bytes(outbox.buffer[at : at + outbox.payload_length])


def everything(outbox):
    found, seq = [], 0
    while outbox.load(seq) == status.OK:
        found.append((outbox.loaded_seq, loaded_payload(outbox)))
        seq = outbox.loaded_seq + 1
    return found


def fill(outbox, count, length=64):
    for _ in range(count):
        assert (
            outbox.append(TOPIC, b"%08d" % outbox.next_seq + bytes(length - 8), length) == status.OK
        )


class TestFifo(unittest.TestCase):
    def test_messages_come_back_in_order_after_a_reset(self):
        flash, outbox = fresh()
        fill(outbox, 100)
        found = everything(peek(flash))
        self.assertEqual([seq for seq, _ in found], list(range(100)))
        self.assertEqual(
            [payload[:8] for _, payload in found], [b"%08d" % seq for seq in range(100)]
        )

    def test_topic_and_flags_are_kept(self):
        flash, outbox = fresh()
        outbox.append(b"a/b", b"", 0, 0x50)
        outbox = again(flash)
        self.assertEqual(outbox.load(0), status.OK)
        self.assertEqual(bytes(outbox.buffer[outbox.topic_at : outbox.topic_at + 3]), b"a/b")
        self.assertEqual((outbox.flags, outbox.payload_length), (0x50, 0))

    def test_boot_count_grows_with_each_boot_that_stored_something(self):
        flash, outbox = fresh()
        for boot in range(1, 5):
            self.assertEqual(outbox.boot, boot)
            fill(outbox, 1)
            outbox = again(flash)

    def test_full_refuses_and_keeps_what_it_has(self):
        flash, outbox = fresh(blocks=2)
        count = 0
        while outbox.append(TOPIC, bytes(400), 400) == status.OK:
            count += 1
        self.assertEqual(outbox.append(TOPIC, bytes(400), 400), status.FULL)
        self.assertEqual((outbox.refused, len(everything(peek(flash)))), (2, count))

    def test_space_comes_back_when_messages_are_discarded(self):
        flash, outbox = fresh(blocks=2)
        for _ in range(500):
            fill(outbox, 1, 300)
            self.assertTrue(outbox.discard(outbox.next_seq - 1))
        # its acknowledgement was in RAM only
        self.assertEqual([seq for seq, _ in everything(peek(flash))], [499])
        outbox.save_state()
        self.assertEqual((everything(peek(flash)), outbox.refused), ([], 0))

    def test_discard_out_of_order_within_the_window(self):
        flash, outbox = fresh()
        fill(outbox, 20)
        for seq in (3, 1, 16):
            self.assertTrue(outbox.discard(seq))
        self.assertFalse(outbox.discard(17))  # more than 16 after the oldest
        self.assertFalse(outbox.discard(20))  # not yet stored
        self.assertEqual(outbox.oldest_seq, 0)
        outbox.discard(0)
        self.assertEqual(outbox.oldest_seq, 2)
        outbox.discard(2)
        self.assertEqual(outbox.oldest_seq, 4)
        fill(outbox, 1)  # carries the acknowledgements
        outbox = again(flash)
        self.assertEqual((outbox.oldest_seq, outbox.acked), (4, 1 << 11))

    def test_save_state_writes_only_when_something_changed(self):
        flash, outbox = fresh()
        fill(outbox, 3)
        programs = flash.programs
        outbox.save_state()
        self.assertEqual(flash.programs, programs)
        outbox.discard(0)
        outbox.save_state()
        self.assertEqual((flash.programs, again(flash).oldest_seq), (programs + 1, 1))

    def test_any_held_message_can_be_sought(self):
        _, outbox = fresh(blocks=8)
        fill(outbox, 200)
        outbox.discard_through(9)
        random.seed(3)
        for seq in [random.getrandbits(8) % 190 + 10 for _ in range(100)] + [10, 199]:
            self.assertEqual((outbox.load(seq), outbox.loaded_seq), (status.OK, seq))
            self.assertEqual(loaded_payload(outbox)[:8], b"%08d" % seq)

    def test_cursor_follows_the_head_into_new_sectors(self):
        _, outbox = fresh(blocks=3)
        for seq in range(300):
            fill(outbox, 1)
            self.assertEqual((outbox.load(seq), outbox.loaded_seq), (status.OK, seq))
            outbox.discard(seq)
            self.assertEqual(outbox.load(seq + 1), status.EMPTY)

    def test_the_next_message_takes_one_read(self):
        flash, outbox = fresh(blocks=3)
        fill(outbox, 30)
        outbox.load(7)
        for seq in range(8, 30):
            flash.reads = 0
            self.assertEqual(
                (outbox.load(seq), outbox.loaded_seq, flash.reads), (status.OK, seq, 1)
            )
        self.assertEqual((outbox.load(30), flash.reads), (status.EMPTY, 1))

    def test_a_number_that_was_freed_gives_the_next_one_held(self):
        _, outbox = fresh()
        fill(outbox, 60)
        outbox.discard_through(49)
        for seq in (0, 17, 50):
            self.assertEqual((outbox.load(seq), outbox.loaded_seq), (status.OK, 50))
        self.assertEqual(outbox.unreadable, 0)

    def test_the_head_comes_round_to_the_block_that_was_read_last(self):
        """All of it freed, what follows unread: the place where reading stopped is in a sector of
        another number now.
        """
        for blocks in (2, 3):  # with four or more, another block is free between them
            _, outbox = fresh(blocks)
            while outbox._head == 0:
                fill(outbox, 1, 300)
            first = outbox.next_seq - 1
            for seq in range(first):
                outbox.load(seq)
            outbox.discard_through(first - 1)
            while outbox.append(TOPIC, bytes(300), 300) == status.OK:
                pass
            self.assertEqual(
                (outbox._head, outbox.load(first), outbox.loaded_seq), (0, status.OK, first)
            )

    def test_nothing_is_stored_before_mount_found_the_region_good(self):
        flash = flash_in_ram(4, image=b"littlefs" * 2048)
        outbox = Outbox(flash)
        for _ in range(2):
            self.assertEqual(
                (outbox.append(TOPIC, b"x", 1), outbox.reserve(1)), (status.BUSY, status.BUSY)
            )
            self.assertEqual((outbox.load(0), outbox.erase_ahead()), (status.EMPTY, False))
            self.assertEqual(outbox.mount(), status.FOREIGN)
        self.assertEqual(flash.erases + flash.programs, 0)

    def test_too_big_is_refused_before_anything_is_written(self):
        flash, outbox = fresh()
        programs = flash.programs
        self.assertEqual(outbox.append(TOPIC, bytes(600), 600), status.TOO_BIG)
        self.assertEqual(outbox.append(bytes(256), b"", 0), status.TOO_BIG)
        self.assertEqual(flash.programs, programs)

    def test_no_more_is_freed_than_there_is(self):
        _, outbox = fresh()
        for count in (3, 40):
            fill(outbox, count)
            outbox.discard(outbox.oldest_seq + 2)
            outbox.discard_through(outbox.next_seq + 100)
            self.assertEqual((outbox.oldest_seq, outbox.acked), (outbox.next_seq, 0))


class SparseFile:
    """16 MiB of erased flash, of which only what was written takes RAM. Calls stay within a block,
    as the chip's do.
    """

    def __init__(self):
        self._blocks, self._at = {}, 0

    def seek(self, at):
        self._at = at

    def readinto(self, buf):
        block = self._blocks.get(self._at >> 12)
        offset = self._at & 4095
        buf[:] = block[offset : offset + len(buf)] if block else b"\xff" * len(buf)

    def write(self, data):
        block = self._blocks.setdefault(self._at >> 12, bytearray(b"\xff" * 4096))
        offset = self._at & 4095
        block[offset : offset + len(data)] = data


class TestFlashUse(unittest.TestCase):
    def test_cost_per_message_on_rp2(self):
        """24-byte topic, 64-byte payload: 0.026 erases and 1.02 program calls at most."""
        flash, outbox = fresh(blocks=64)
        start, erases = flash.programs, flash.erases
        for _ in range(4000):
            outbox.append(b"sensors/board-1/readings", bytes(64), 64)
            outbox.discard(outbox.next_seq - 1)
        self.assertTrue((flash.programs - start) / 4000 <= 1.02)
        self.assertTrue((flash.erases - erases) / 4000 <= 0.026)
        self.assertTrue(max(flash.block_erases) - min(flash.block_erases) <= 1)

    def test_mount_reads_each_header_and_one_sector(self):
        flash, outbox = fresh(blocks=64)
        fill(outbox, 1000)
        flash.reads = 0
        again(flash)
        self.assertTrue(flash.reads <= 65 + 2 * 40 + 26)

    def test_a_board_that_sleeps_between_messages_goes_on_in_the_open_sector(self):
        flash, _ = fresh(blocks=4)
        erases = flash.erases
        for wake in range(200):
            outbox = Outbox(flash)
            outbox.settles_later = True
            self.assertEqual(outbox.mount(), status.OK)
            outbox.discard_through(wake - 20)
            self.assertEqual(outbox.append(b"sensors/board-1/readings", bytes(64), 64), status.OK)
        self.assertEqual(flash.erases - erases, 200 // 39)
        self.assertEqual(outbox.boot, 200)

    def test_erase_ahead_spares_append_the_erase(self):
        flash, outbox = fresh()
        for _ in range(300):
            erases = flash.erases
            fill(outbox, 1, 300)
            self.assertEqual(flash.erases, erases)
            outbox.discard(outbox.next_seq - 1)
            outbox.erase_ahead()

    def test_every_geometry(self):
        for align, page_bytes in ((4, 16), (4, 256), (32, 32), (64, 4096), (256, 256)):
            geometry = {"align": align, "page_bytes": page_bytes}
            flash, outbox = fresh(blocks=3, **geometry)
            for seq in range(200):
                fill(outbox, 1, 8 + seq % 90)
                outbox.discard(seq)
            fill(outbox, 5)
            self.assertEqual(len(everything(peek(flash, **geometry))), 5, geometry)

    def test_the_largest_record_fits_wherever_it_begins(self):
        for align, page_bytes in ((4, 256), (32, 256), (256, 256), (4, 64), (4, 32)):
            for record_bytes in (64, 100, 128, 200, 256, 300, 509, 512):
                flash, outbox = fresh(align=align, page_bytes=page_bytes, record_bytes=record_bytes)
                sent = []
                # a short one before each, so that it begins at another place of a page
                while len(sent) < 40:
                    sent += [
                        bytes([len(sent)]) * (len(sent) % 7),
                        bytes([len(sent)]) * (record_bytes - 16),
                    ]
                    self.assertEqual(
                        [outbox.append(b"", payload, len(payload)) for payload in sent[-2:]],
                        [status.OK] * 2,
                    )
                    self.assertEqual(outbox.load(outbox.next_seq - 1), status.OK)
                    self.assertEqual(loaded_payload(outbox), sent[-1])
                    outbox.discard_through(outbox.next_seq - 5)
                found = everything(peek(flash, align=align, page_bytes=page_bytes))
                self.assertEqual([payload for _, payload in found][-4:], sent[-4:])

    def test_the_largest_region(self):
        """4,096 blocks, the head just before the region's end: it goes round, and an erase outside
        would stop the test.
        """
        flash = NorFlash(SparseFile(), 4096, 256)
        outbox = Outbox(flash)
        outbox.format(b"01234567")
        outbox._head, outbox._offset = 4093, 4096
        for _ in range(30):
            self.assertEqual(outbox.append(TOPIC, bytes(400), 400), status.OK)
        self.assertEqual((outbox._head, len(everything(again(flash)))), (1, 30))

    def test_impossible_geometry_is_refused(self):
        faulty = (
            {"align": 3},
            {"align": 512},
            {"align": 0},
            {"page_bytes": 100},
            {"page_bytes": 0},
            {"align": 64, "page_bytes": 32},
            {"record_bytes": 9000},
        )
        for geometry in faulty:
            with self.assertRaises(ValueError):
                Outbox(flash_in_ram(4), **geometry)
        with self.assertRaises(ValueError):
            Outbox(flash_in_ram(1))

    def test_block_numbers_outside_the_region_are_stopped_here(self):
        flash, outbox = fresh()
        for block in (-1, 4):
            with self.assertRaises(ValueError):
                outbox._erase(block)
        with self.assertRaises(NorRuleError):
            flash.readblocks(4, bytearray(1), 0)


class Unreliable:
    """A chip whose n-th program stores nothing, or raises."""

    def __init__(self, flash, fails, error=None):
        self._flash, self._fails, self._error = flash, fails, error
        self.readblocks, self.ioctl = flash.readblocks, flash.ioctl

    def writeblocks(self, block, buf, offset):
        self._fails -= 1
        if self._fails == 0:
            if self._error:
                raise self._error
            return
        self._flash.writeblocks(block, buf, offset)


class Stuck(Unreliable):
    """A chip whose first program leaves one bit of the byte at `offset` erased that was to be 0."""

    def __init__(self, flash, offset):
        Unreliable.__init__(self, flash, -1)
        self._at = offset

    def writeblocks(self, block, buf, offset):
        data = bytearray(buf)
        if self._at >= 0:
            byte = data[self._at - offset]
            data[self._at - offset] = byte | (byte + 1)
        self._at = -1
        self._flash.writeblocks(block, data, offset)


class TestFaults(unittest.TestCase):
    def test_a_bit_that_did_not_take_is_noticed_wherever_it_is_in_the_record(self):
        payload = bytes(9)
        for at in range(32, 32 + 16 + 1 + len(payload)):
            flash = flash_in_ram(3)
            Outbox(flash).format(b"01234567")
            outbox = Outbox(Stuck(flash, at))
            outbox.mount()
            self.assertEqual(outbox.append(b"t", payload, len(payload)), status.OK)
            self.assertEqual(outbox.storage_errors, 1, at)
            self.assertEqual(everything(peek(flash)), [(0, payload)])

    def test_a_program_that_did_not_take_is_done_again_in_the_next_sector(self):
        for fails in range(2, 60):
            flash = flash_in_ram(3)
            Outbox(flash).format(b"01234567")
            outbox = Outbox(Unreliable(flash, fails))
            outbox.mount()
            for _ in range(60):
                fill(outbox, 1)
                outbox.discard_through(outbox.next_seq - 11)
            self.assertEqual(outbox.storage_errors, 1)
            self.assertEqual([seq for seq, _ in everything(peek(flash))], list(range(49, 60)))

    def test_driver_error_is_a_status_and_the_next_append_works(self):
        flash = flash_in_ram(3)
        Outbox(flash).format(b"01234567")
        outbox = Outbox(Unreliable(flash, 2, OSError(5)))
        outbox.mount()
        fill(outbox, 1)
        self.assertEqual(outbox.append(TOPIC, b"x", 1), status.STORAGE)
        fill(outbox, 3)
        self.assertEqual([seq for seq, _ in everything(peek(flash))], [0, 1, 2, 3])

    def test_lost_messages_are_given_up_also_when_nothing_stands_behind_them(self):
        flash, outbox = fresh(blocks=2)
        while outbox._head == 0:
            count = outbox.next_seq
            outbox.reserve(400)  # opens the next sector, and leaves it empty
            if outbox._head == 0:
                fill(outbox, 1, 400)
        flash._file.seek(32)
        flash._file.write(bytes(4000))
        self.assertEqual(
            (outbox.load(0), outbox.oldest_seq, outbox.unreadable), (status.EMPTY, count, count)
        )
        for seq in range(count, count + 20):  # and their block is used again
            fill(outbox, 1, 400)
            self.assertEqual((outbox.load(seq), outbox.loaded_seq), (status.OK, seq))
            outbox.discard(seq)

    def test_keyboard_interrupt_after_the_program_keeps_the_outbox_sound(self):
        """rp2: callbacks run after the program succeeded, and may raise."""

        class Interrupting(Unreliable):
            def writeblocks(self, block, buf, offset):
                self._flash.writeblocks(block, buf, offset)
                self._fails -= 1
                if self._fails == 0:
                    raise KeyboardInterrupt

        flash = flash_in_ram(3)
        Outbox(flash).format(b"01234567")
        outbox = Outbox(Interrupting(flash, 2))
        outbox.mount()
        fill(outbox, 1)
        with self.assertRaises(KeyboardInterrupt):
            outbox.append(TOPIC, b"interrupted", 11)
        fill(outbox, 3)
        self.assertEqual(
            [payload[:8] for _, payload in everything(peek(flash))],
            [b"%08d" % seq for seq in range(4)],
        )

    def test_call_from_inside_a_call_is_refused(self):
        flash = flash_in_ram(3)
        outbox = Outbox(flash)
        outbox.format(b"01234567")
        answers = []
        inner = flash.writeblocks

        def reentrant(block, buf, offset):
            answers.append(outbox.append(TOPIC, b"inner", 5))
            inner(block, buf, offset)

        flash.writeblocks = reentrant
        fill(outbox, 1)
        self.assertEqual(answers, [status.BUSY])
        self.assertEqual(len(everything(outbox)), 1)


class TestLongRead(unittest.TestCase):
    """One outbox, never mounted again, read at the next number and at any number while all else
    goes on.
    """

    def _step(self, outbox, seq):
        dice = random.getrandbits(4)
        if dice < 6:
            length = 8 + random.getrandbits(16) % 440
            outbox.append(TOPIC, b"%08d" % outbox.next_seq + bytes(length - 8), length)
        elif dice < 9:
            outbox.discard(outbox.oldest_seq + random.getrandbits(4) % 4)
        elif dice == 9:
            (outbox.save_state, outbox.erase_ahead)[random.getrandbits(1)]()
        elif dice == 10 and random.getrandbits(2) == 0:
            outbox.reserve(random.getrandbits(16) % 480)
        elif dice == 11 and random.getrandbits(3) == 0:
            outbox.discard_through(outbox.oldest_seq + random.getrandbits(6))
        else:
            return self._read(outbox, seq)
        return seq

    def _read(self, outbox, seq):
        if random.getrandbits(4) == 0:
            seq = random.getrandbits(20) % (outbox.next_seq + 3)
        expected = max(seq, outbox.oldest_seq)
        if expected >= outbox.next_seq:
            self.assertEqual(outbox.load(seq), status.EMPTY)
            return seq
        self.assertEqual((outbox.load(seq), outbox.loaded_seq), (status.OK, expected))
        self.assertEqual(loaded_payload(outbox)[:8], b"%08d" % expected)
        return expected + 1

    def test_what_is_read_is_what_was_stored(self):
        for seed, (blocks, align, page_bytes) in enumerate(
            ((2, 4, 256), (3, 32, 32), (4, 256, 256), (7, 4, 4096))
        ):
            random.seed(seed)
            flash = flash_in_ram(blocks, page_bytes)
            for fails in (-1, 40):  # with a program now and then that does not take
                device = Unreliable(flash, -1)
                outbox = Outbox(device, align=align, page_bytes=page_bytes)
                outbox.format(b"01234567", True)
                seq = 0
                for step in range(3000):
                    if fails > 0 and step % fails == 0:
                        device._fails = random.getrandbits(4)
                    seq = self._step(outbox, seq)
                self.assertEqual((outbox.unreadable, outbox.damaged), (0, 0))
                self.assertTrue(outbox.refused > 0 and seq > 500)


class TestForeignRegions(unittest.TestCase):
    def test_blank_foreign_newer_and_other_alignment_are_told_apart(self):
        self.assertEqual(Outbox(flash_in_ram(2)).mount(), status.BLANK)
        self.assertEqual(Outbox(flash_in_ram(2, image=b"littlefs" * 1024)).mount(), status.FOREIGN)
        flash, _ = fresh(align=4)
        self.assertEqual(Outbox(flash, align=32).mount(), status.GEOMETRY)

    def test_one_of_a_greater_alignment_is_read_and_continued(self):
        for record_bytes, answer in ((512, status.OK), (516, status.GEOMETRY)):
            flash, outbox = fresh(align=256)
            fill(outbox, 30)
            outbox.discard_through(2)
            outbox.save_state()
            outbox = Outbox(flash, record_bytes, align=4)
            self.assertEqual(outbox.mount(), answer)
            if answer == status.OK:
                self.assertEqual([seq for seq, _ in everything(outbox)], list(range(3, 30)))
                fill(outbox, 10)
                self.assertEqual(outbox._offset % 256, 0)
                again = Outbox(flash, align=256)
                self.assertEqual((again.mount(), again.next_seq), (status.OK, 40))
                self.assertEqual(outbox.format(b"89abcdef", True), status.OK)
                fill(outbox, 1, 40)
                self.assertTrue(outbox._offset < 256)

    def test_a_newer_version_is_not_touched(self):
        from outpost.checksum import crc30

        flash, _ = fresh()
        image = bytearray(image_of(flash))
        image[2] = 3
        crc = crc30(0, image, 0, 28)
        for i in range(4):
            image[28 + i] = crc >> 8 * i & 0xFF
        newer = flash_in_ram(4, image=bytes(image))
        outbox = Outbox(newer)
        self.assertEqual(
            (outbox.mount(), outbox.format(b"01234567")), (status.NEWER, status.FOREIGN)
        )
        self.assertEqual(newer.erases + newer.programs, 0)

    def test_format_takes_what_is_a_stream_for_a_collector_alone(self):
        """With another one no message would ever be confirmed."""
        for stream in (b"", b"kitchen1", b"3FA9C1D2", b"3fa9c1d", b"3fa9c1d2e"):
            outbox = Outbox(flash_in_ram(4))
            with self.assertRaises(ValueError):
                outbox.format(stream)
            self.assertEqual(outbox.mount(), status.BLANK)

    def test_format_refuses_what_is_not_blank_unless_forced(self):
        flash, outbox = fresh()
        fill(outbox, 1)
        self.assertEqual(Outbox(flash).format(b"89abcdef"), status.FOREIGN)
        self.assertEqual(len(everything(peek(flash))), 1)
        outbox = Outbox(flash)
        self.assertEqual(outbox.format(b"89abcdef", force=True), status.OK)
        self.assertEqual((outbox.stream, everything(outbox)), (b"89abcdef", []))


if __name__ == "__main__":
    unittest.main()

# slow: thousands of cases
"""Faults of the flash beyond a clean power cut: blocks that die, flipped bits, cells that read
differently each time, drivers that raise, torn formats. Nothing promised is lost, no number is used
again.
"""

import random
import unittest

from bench_client import Bench
from fake_flash import PowerCut, flash_in_ram, image_of, looking
from filled_outbox import WithoutSpare
from nor_flash import CUT_MODES, NorFlash
from outpost import status
from outpost.flash.shelf import lend_block, take_back
from outpost.outbox import Outbox
from outpost.policies import DropOldest
from outpost.state_note import NotedOutbox
from power_loss import contents

LAST_SEQ = (1 << 30) - 1
LAST_FOUR = list(range(96, 100))


class DyingFlash(NorFlash):
    """A chip of which the blocks in `dead` silently take no erase and no program."""

    dead = ()

    def writeblocks(self, block, buf, offset=None):
        if block not in self.dead:
            NorFlash.writeblocks(self, block, buf, offset)

    def ioctl(self, op, arg):
        if op == 6 and arg in self.dead:
            self.erases += 1
            return 0
        return NorFlash.ioctl(self, op, arg)


def dying(blocks):
    return DyingFlash(flash_in_ram(blocks, 256)._file, blocks, 256)


def copy_of(flash, image=None):
    return flash_in_ram(flash.blocks, flash.unit_bytes, image or image_of(flash))


def mounted(flash, outbox_class=Outbox, **options):
    outbox = outbox_class(flash, **options)
    result = outbox.mount()
    assert result == status.OK, result
    return outbox


def formatted(flash, outbox_class=Outbox, **options):
    outbox = outbox_class(flash, **options)
    assert outbox.format(b"01234567") == status.OK
    return outbox


def publish(outbox, count, length=300):
    """Numbers that append() returned OK for."""
    done = []
    for _ in range(count):
        seq = outbox.next_seq
        if outbox.append(b"t", b"%08d" % seq + bytes(length - 8), length) == status.OK:
            done.append(outbox.next_seq - 1)
    return done


class TestDeadBlocks(unittest.TestCase):
    def test_a_block_that_dies_after_two_rounds_loses_nothing(self):
        for blocks, every in ((3, 1), (16, 16)):
            for dead in range(min(blocks, 3)):
                flash = dying(blocks)
                outbox = formatted(flash)
                while max(flash.block_erases) < 2:
                    publish(outbox, 1)
                    outbox.discard(outbox.next_seq - 4)
                flash.dead = (dead,)
                for step in range(12 * blocks + 20):
                    publish(outbox, 1)
                    if step % every:
                        continue
                    held = list(range(outbox.oldest_seq, outbox.next_seq))
                    found = contents(mounted(copy_of(flash)))
                    self.assertEqual([seq for seq in held if seq not in found], [], dead)
                    outbox.discard_through(outbox.next_seq - 5)

    def test_it_is_left_out_and_the_ring_goes_on_with_the_others(self):
        flash = dying(16)
        outbox = formatted(flash)
        publish(outbox, 100)
        flash.dead = (5,)
        statuses = []
        for _ in range(2000):
            statuses.append(outbox.append(b"t", bytes(200), 200))
            outbox.discard_through(outbox.next_seq - 20)
            outbox.erase_ahead()
        self.assertEqual((set(statuses), outbox.left_out), ({status.OK}, 1))
        self.assertTrue(flash.erases <= 8 + 2000 // 18 + 4, flash.erases)
        again = mounted(copy_of(flash))
        self.assertEqual((again.left_out, again._out, len(contents(again))), (1, (5,), 20))

    def test_it_stays_left_out_over_restarts(self):
        flash = dying(6)
        publish(formatted(flash), 30)
        flash.dead = (2,)
        for boot in range(400):
            outbox = mounted(flash, looking(Outbox))
            outbox.discard_through(outbox.next_seq - 5)
            self.assertEqual(outbox.append(b"t", bytes(300), 300), status.OK)
            # When it is the next block, no newer sector behind it shows that it was left out: it is
            # tried again, once a round.
            self.assertTrue(outbox.left_out == (boot >= 60) or outbox._head == 1, boot)
        self.assertTrue(flash.erases <= 2 + 430 // 12 + 2 + 2 * (430 // 60), flash.erases)

    def test_with_one_block_left_it_says_so_and_keeps_what_it_has(self):
        flash = dying(3)
        outbox = formatted(flash)
        publish(outbox, 5)
        flash.dead = (1, 2)
        statuses = [outbox.append(b"t", bytes(300), 300) for _ in range(30)]
        self.assertEqual(statuses[-1], status.STORAGE)
        erases = flash.erases
        outbox.append(b"t", bytes(300), 300)
        outbox.erase_ahead()
        self.assertEqual((flash.erases, outbox.left_out), (erases, 1))
        held = list(range(outbox.next_seq))
        self.assertEqual(sorted(contents(mounted(copy_of(flash)))), held)

    def test_a_block_that_is_erased_but_takes_no_program(self):
        flash = dying(16)
        outbox = formatted(flash)
        publish(outbox, 100)
        flash.ioctl = NorFlash(flash._file, 16, 256).ioctl
        flash.dead = (8,)
        for _ in range(500):
            self.assertEqual(outbox.append(b"t", bytes(200), 200), status.OK)
            outbox.discard_through(outbox.next_seq - 20)
            outbox.erase_ahead()
        self.assertEqual(outbox.left_out, 1)


class TestLentBlocks(unittest.TestCase):
    def _lend(self, flash, outbox):
        block = lend_block(outbox)
        outbox._erase(block)
        header = bytearray(b"OS\x02\x02" + bytes(24))
        from outpost.checksum import crc30

        crc = crc30(0, header, 0, 28)
        header += bytes([crc >> 8 * i & 0xFF for i in range(4)])
        flash.writeblocks(block, header + b"\xff" * 224, 0)
        return block

    def test_a_lent_block_is_not_used_until_it_is_taken_back(self):
        flash = flash_in_ram(5, 256)
        outbox = formatted(flash)
        publish(outbox, 20)
        block = self._lend(flash, outbox)
        image = image_of(flash)[block * 4096 :][:4096]
        for _boot in range(3):
            for _ in range(80):
                self.assertEqual(len(publish(outbox, 1)), 1)
                outbox.discard_through(outbox.next_seq - 6)
                outbox.erase_ahead()
            self.assertEqual(image_of(flash)[block * 4096 :][:4096], image)
            outbox = mounted(flash)
            self.assertEqual((outbox.lent, outbox.left_out), ((block,), 0))
            self.assertEqual(len(contents(outbox)), 6)
        outbox._erase(block)
        take_back(outbox, block)
        self.assertEqual(mounted(copy_of(flash))._out, ())
        publish(outbox, 60)
        self.assertEqual(len(contents(mounted(copy_of(flash)))), len(contents(outbox)))

    def test_in_a_full_ring_one_that_was_given_back_is_lent_if_it_is_erased(self):
        for first, lends in ((b"\xff", True), (b"\x7f", False)):
            flash = flash_in_ram(5, 256)
            outbox = formatted(flash, WithoutSpare)
            publish(outbox, 20)
            block = self._lend(flash, outbox)
            publish(outbox, 100)
            outbox._erase(block)
            take_back(outbox, block)
            flash.writeblocks(block, first + b"\xff" * 255, 0)
            self.assertEqual(lend_block(outbox), block if lends else -1)

    def test_two_blocks_stay(self):
        outbox = formatted(flash_in_ram(3, 256))
        self.assertTrue(lend_block(outbox) >= 0)
        self.assertEqual(lend_block(outbox), -1)
        full = formatted(flash_in_ram(3, 256))
        publish(full, 60)
        self.assertEqual(lend_block(full), -1)


class RaisingFlash(NorFlash):
    """A driver that raises at the calls of the kinds in `raises`."""

    raises = ()

    def readblocks(self, block, buf, offset=0):
        if "read" in self.raises:
            raise OSError(5)
        NorFlash.readblocks(self, block, buf, offset)

    def writeblocks(self, block, buf, offset=None):
        if "program" in self.raises:
            raise OSError(5)
        NorFlash.writeblocks(self, block, buf, offset)

    def ioctl(self, op, arg):
        if op == 6 and "erase" in self.raises:
            raise OSError(5)
        return NorFlash.ioctl(self, op, arg)


class TestDriverErrors(unittest.TestCase):
    def test_none_leaves_a_call_of_the_outbox(self):
        for outbox_class in (Outbox, DropOldest):
            for kind in ("read", "program", "erase"):
                flash = RaisingFlash(flash_in_ram(6, 256)._file, 6, 256)
                outbox = formatted(flash, outbox_class)
                publish(outbox, 30)
                outbox.discard_through(9)
                flash.raises = (kind,)
                outbox.erase_ahead()
                for _ in range(40):
                    answer = outbox.append(b"t", bytes(300), 300)
                    self.assertTrue(answer in (status.OK, status.STORAGE, status.FULL), answer)
                outbox.load(12), outbox.load(10), outbox.load(outbox.next_seq - 1)
                outbox.save_state()
                self.assertTrue(outbox.storage_errors > 0, kind)
                flash.raises = ()
                outbox.discard_through(outbox.next_seq - 3)
                again = mounted(flash, outbox_class)
                self.assertEqual(len(publish(again, 3)), 3, kind)
                flash.raises = ("read",)
                self.assertEqual(outbox_class(flash).mount(), status.STORAGE)

    def test_the_client_keeps_its_connection(self):
        for kind in ("read", "program", "erase"):
            flash = RaisingFlash(flash_in_ram(4, 256)._file, 4, 256)
            formatted(flash)
            bench = Bench("broker", flash=flash).connect()
            for turn in range(200):
                flash.raises = (kind,) if turn % 3 else ()
                bench.client.publish(b"t", bytes(300))
                bench.poll(2)
            self.assertEqual((bench.client.last_error, bench.client.failures), (0, 0), kind)


class TestFlippedBits(unittest.TestCase):
    def test_a_flip_in_the_newest_header_uses_no_number_again(self):
        """90 published, confirmed through 89."""
        flash = flash_in_ram(6, 256)
        outbox = formatted(flash)
        publish(outbox, 90, 100)
        outbox.discard_through(89)
        for saved in (False, True):
            if saved:
                outbox.save_state()
            start = outbox._head * 4096
            for bit in range(saved, 256, 3):
                image = bytearray(image_of(flash))
                image[start + bit // 8] ^= 1 << bit % 8
                again = mounted(copy_of(flash, bytes(image)))
                self.assertEqual((again.next_seq, again.mended), (90, 1), bit)
                seq = publish(again, 1)[0]
                again.discard_through(89)  # the retained confirmation
                self.assertTrue(seq in contents(again))

    def test_each_bit_of_an_image(self):
        """Lost records 1 at most, none used again, none freed, none invented. The long form is
        `host_tests/fuzz/flash_faults.py`.
        """
        from flash_faults import flip_states, judge_flip

        for name, state in flip_states(4, messages=6, length=40):
            for bit in range(len(name) % 7, len(state[0]) * 8, 1999):
                self.assertTrue(judge_flip(state, bit) <= 1, (name, bit))


class Dice:
    """Repeatable choices; MicroPython's random has one generator for all."""

    def __init__(self, seed):
        self._state = seed * 2 + 1

    def below(self, count):
        self._state = (self._state * 75 + 74) % 65537
        return self._state * 7 // 3 % count


class UnstableFlash(NorFlash):
    """What a cut left half done reads differently each time, until the block is erased: any of its
    bits that was to change may read as before or after. One byte of each shows that it is torn.
    """

    def __init__(self, *args):
        NorFlash.__init__(self, *args)
        self.torn = {}  # (block, offset): (bytes before, bytes after)
        self.choice = Dice(1)

    def tear(self, block, offset, new):
        """A program of `new` is cut."""
        before = bytearray(len(new))
        NorFlash.readblocks(self, block, before, offset)
        after = bytes([a & b for a, b in zip(before, new)])
        self.torn[block, offset] = (bytes(before), after)

    def readblocks(self, block, buf, offset=0):
        NorFlash.readblocks(self, block, buf, offset)
        mode = self.choice.below(4)  # all as before, all as after, half, any
        for (torn_block, start), (before, after) in self.torn.items():
            if torn_block == block:
                changed = [i for i in range(len(before)) if before[i] != after[i]]
                for i in changed:
                    at = start + i - offset
                    if 0 <= at < len(buf):
                        now = self._read_now(1 if i == changed[0] else mode, before[i], after[i], i)
                        buf[at] &= now

    def _read_now(self, mode, before, after, i):
        if mode == 2:
            mode = i & 64
        if mode == 3:
            return after | before & self.choice.below(256)
        return after if mode else before

    def ioctl(self, op, arg):
        if op == 6:
            self.torn = {key: value for key, value in self.torn.items() if key[0] != arg}
        return NorFlash.ioctl(self, op, arg)


class TestUnstableCells(unittest.TestCase):
    """A number that load() handed out is never used for another message, and a promised message is
    never lost, whatever a torn program reads as later. What reads as erased all along is left out
    of the model: see OUTBOX_FORMAT.md.
    """

    def _tear(self, flash, outbox, payload):
        """Append, and cut its last program."""
        program = flash.writeblocks

        def cut(block, buf, offset=None):
            flash.tear(block, offset, bytes(buf))
            raise PowerCut()

        flash.writeblocks = cut
        try:
            outbox.append(b"t", payload, len(payload))
        except PowerCut:
            pass
        flash.writeblocks = program

    def _live(self, seed, blocks, length):
        choice = Dice(seed)
        flash = UnstableFlash(flash_in_ram(blocks, 256)._file, blocks, 256)
        formatted(flash)
        promised, seen = {}, {}
        self.serial = 0
        for boot in range(30):
            flash.choice = Dice(seed * 1000 + boot)
            outbox = mounted(flash)
            for _ in range(choice.below(4)):
                self._step(outbox, choice, length, promised, seen)
            if choice.below(2):
                self._tear(flash, outbox, self._payload(length))

    def _payload(self, length):
        self.serial += 1
        return b"%06d" % self.serial + bytes(length)

    def _step(self, outbox, choice, length, promised, seen):
        if choice.below(3):
            payload = self._payload(length + choice.below(60))
            if outbox.append(b"t", payload, len(payload)) == status.OK:
                promised[outbox.next_seq - 1] = payload
        if choice.below(2):
            self._look(outbox, promised, seen)
        if choice.below(2) and outbox.next_seq - outbox.oldest_seq > 6:
            outbox.discard_through(outbox.oldest_seq + 2)
            for seq in [seq for seq in promised if seq < outbox.oldest_seq]:
                del promised[seq]
        if not choice.below(4):
            outbox.erase_ahead()

    def _look(self, outbox, promised, seen):
        found, seq = {}, 0
        while outbox.load(seq) == status.OK:
            at = outbox.topic_at + outbox.topic_length
            payload = bytes(outbox.buffer[at : at + outbox.payload_length])
            seq = outbox.loaded_seq + 1
            found[seq - 1] = payload
            self.assertEqual(seen.setdefault(seq - 1, payload), payload)
        held = [seq for seq in promised if seq >= outbox.oldest_seq]
        self.assertEqual([seq for seq in held if found.get(seq) != promised[seq]], [])

    def test_no_number_is_used_again_and_nothing_promised_is_lost(self):
        for seed in range(10):
            with self.subTest(seed=seed):
                self._live(seed, 3 + seed % 3, (40, 300)[seed % 2])


class TestFormat(unittest.TestCase):
    def _cut(self, flash, operation, mode, outbox, stream):
        """Format, by force over an outbox; whether it was cut."""
        flash.cut_at, flash.cut_mode = flash.operations + operation, mode
        try:
            outbox.format(stream, force=stream == b"89abcdef")
        except PowerCut:
            return True
        finally:
            flash.cut_at = 0
        return False

    def test_a_cut_in_a_forced_format_leaves_the_old_outbox_or_the_new_one(self):
        for mode in CUT_MODES:
            operation = 0
            was_cut = True
            while was_cut:
                operation += 1
                flash = flash_in_ram(5, 256)
                outbox = formatted(flash)
                while outbox._head != 2 or outbox._offset < 2000:
                    publish(outbox, 1)
                next_seq = outbox.next_seq
                made = Outbox(flash)
                was_cut = self._cut(flash, operation, mode, made, b"89abcdef")
                again = mounted(flash)
                if again.stream == b"01234567":
                    self.assertEqual(again.next_seq, next_seq, (mode, operation))
                else:
                    self.assertEqual((again.stream, again.next_seq), (b"89abcdef", 0))
                    self.assertEqual(contents(again), {})

    def test_a_cut_in_the_first_format_can_be_repaired_by_another(self):
        for blocks, page_bytes in ((2, 256), (4, 256), (3, 4096)):
            for mode in CUT_MODES:
                was_cut, operation = True, 0
                while was_cut:
                    operation += 1
                    for second in range(1, 6):
                        flash = flash_in_ram(blocks, page_bytes)
                        made = Outbox(flash, page_bytes=page_bytes)
                        was_cut = self._cut(flash, operation, mode, made, b"01234567")
                        for at in (second, 0):
                            made = Outbox(flash, page_bytes=page_bytes)
                            if made.mount() != status.OK:
                                self._cut(flash, at, mode, made, b"01234567")
                        self.assertEqual(mounted(flash, page_bytes=page_bytes).next_seq, 0)

    def test_an_erase_that_leaves_zeros_does_not_make_it_foreign(self):
        flash = flash_in_ram(3, 256)
        flash.cut_at, flash.cut_mode = 2, "random"  # in the header
        with self.assertRaises(PowerCut):
            Outbox(flash).format(b"01234567")
        self.assertEqual(Outbox(flash).mount(), status.BLANK)
        flash.cut_at, flash.cut_mode = 4, "nothing"  # in the erase after the second mark
        with self.assertRaises(PowerCut):
            Outbox(flash).format(b"01234567")
        image = bytes(4096) + image_of(flash)[4096:]
        outbox = Outbox(flash_in_ram(3, 256, image))
        self.assertEqual((outbox.mount(), outbox.format(b"89abcdef")), (status.BLANK, status.OK))

    def test_foreign_bytes_are_never_taken_for_a_torn_format(self):
        random.seed(4)
        for block in range(3):
            for at in (0, 16, 2000, 4064, 4080):
                for _ in range(20):
                    image = bytearray(b"\xff" * 3 * 4096)
                    for i in range(16):
                        image[block * 4096 + at + i] = random.getrandbits(8)
                    flash = flash_in_ram(3, 256, bytes(image))
                    self.assertEqual(Outbox(flash).format(b"01234567"), status.FOREIGN, (block, at))
                    self.assertEqual(image_of(flash), bytes(image))


class KeptFlash(NorFlash):
    """A chip that keeps what is on it after each operation, in `images`."""

    def __init__(self, *args):
        NorFlash.__init__(self, *args)
        self.images = []

    def writeblocks(self, block, buf, offset=None):
        NorFlash.writeblocks(self, block, buf, offset)
        self.images.append(image_of(self))

    def ioctl(self, op, arg):
        status = NorFlash.ioctl(self, op, arg)
        if op == 6:
            self.images.append(image_of(self))
        return status


class TestDoubtfulHeads(unittest.TestCase):
    """What mount() could not be sure of, and what the first append() and erase_ahead() do first."""

    def _torn(self):
        """Two blocks. The newest sector has one record, of its first program, which may be torn;
        the erase of the other block was cut."""
        flash = flash_in_ram(2, 256)
        outbox = formatted(flash)
        while outbox._head == 0:
            publish(outbox, 1)
            outbox.discard_through(outbox.next_seq - 2)
        image = bytearray(image_of(flash))
        image[:4096] = bytes([0x5A, 0xC3]) * 2048
        return copy_of(flash, bytes(image)), outbox.next_seq - 1

    def test_the_only_header_is_copied_before_anything_is_erased(self):
        for act in (lambda outbox: outbox.append(b"t", b"x", 1), Outbox.erase_ahead):
            flash, seq = self._torn()
            flash = KeptFlash(flash._file, 2, 256)
            act(mounted(flash))
            self.assertTrue(len(flash.images) >= 2)
            for image in flash.images:
                now = bytearray(image)
                now[4096] ^= 1  # it reads differently after a cut here
                now[4096 + 20] ^= 4
                self.assertTrue(seq in contents(mounted(copy_of(flash, bytes(now)))))

    def test_erase_ahead_does_not_erase_twice(self):
        flash, _ = self._torn()
        outbox = mounted(flash, looking(Outbox))
        erases = flash.erases
        self.assertTrue(outbox.erase_ahead())
        self.assertFalse(outbox.erase_ahead())
        outbox.append(b"t", b"x", 1)
        self.assertEqual(flash.erases - erases, 1)

    def test_a_torn_state_note_is_no_message_whose_kind_flipped(self):
        """Kind 2 with a bit that is not programmed yet is kind 3: nothing is taken for a record,
        and the sector before is the head, with the note."""
        flash = flash_in_ram(4, 256)
        outbox = formatted(flash, NotedOutbox, align=256)
        outbox.set_note(b"note", 4)
        while not outbox._head:
            publish(outbox, 1)
        image = bytearray(image_of(flash))
        start = 4096 * outbox._head
        self.assertEqual(image[start + 256], 2)
        image[start + 256] = 3
        image[start + 512 : start + 4096] = b"\xff" * 3584
        again = mounted(copy_of(flash, bytes(image)), NotedOutbox, align=256)
        note = bytes(again.note[: again.note_length])
        self.assertEqual((note, again.next_seq), (b"note", outbox.next_seq - 1))

    def test_a_number_is_proved_before_it_is_shown_though_numbers_were_passed_over(self):
        flash = flash_in_ram(4, 256)
        outbox = formatted(flash)
        while outbox._offset + 512 <= 4064:
            newest = publish(outbox, 1)[0]
        image = bytearray(image_of(flash))
        image[4096:8192] = bytes([0x5A, 0xC3]) * 2048  # torn in its erase, or a newer sector
        flash = copy_of(flash, bytes(image))
        operations = flash.operations
        outbox = mounted(flash)
        self.assertTrue(flash.operations > operations)
        self.assertEqual(outbox.next_seq, newest + 255)
        self.assertEqual((outbox.load(newest), outbox.loaded_seq), (status.OK, newest))
        self.assertTrue(mounted(copy_of(flash)).next_seq > newest)

    def test_numbers_that_were_passed_over_twice_are_no_messages_that_were_lost(self):
        flash = flash_in_ram(3, 256)
        outbox = formatted(flash, DropOldest)
        publish(outbox, 30)
        for _ in range(2):
            while outbox._offset + 512 <= 4096:
                self.assertEqual(outbox.append(b"", b"", 0, 2), status.OK)  # a state record
            image = bytearray(image_of(flash))
            start = 4096 * outbox._after(outbox._head)
            image[start : start + 4096] = bytes([0x5A, 0xC3]) * 2048  # torn in its erase
            flash = copy_of(flash, bytes(image))
            before = outbox.next_seq
            outbox = mounted(flash, DropOldest)
            self.assertEqual(outbox.next_seq, before + 254)
            self.assertEqual(outbox.append(b"", b"", 0, 2), status.OK)
        newest = publish(outbox, 1)[0]
        outbox.discard_through(newest - 509)
        self.assertEqual((sorted(contents(outbox)), outbox.unreadable), ([newest], 0))


class TestBrownOuts(unittest.TestCase):
    def test_torn_boots_do_not_eat_the_ring(self):
        """8 messages held, and each boot is torn in its first program, in every way."""
        for boots in (56,):
            random.seed(boots)
            flash = flash_in_ram(16, 256)
            outbox = formatted(flash)
            publish(outbox, 8)
            for _ in range(boots):
                outbox = mounted(flash)
                outbox.discard_through(outbox.next_seq - 9)
                flash.cut_mode = CUT_MODES[random.getrandbits(8) % 5]
                flash.cut_at = flash.operations + 1 + random.getrandbits(1)
                try:
                    outbox.append(b"t", bytes(300), 300)
                except PowerCut:
                    pass
                flash.cut_at = 0
                self.assertTrue(len(contents(mounted(copy_of(flash)))) >= 8)
            self.assertEqual(len(publish(mounted(flash), 20)), 20)


class TestEraseAhead(unittest.TestCase):
    def test_a_full_ring_that_drops_the_oldest_keeps_a_block_ahead(self):
        flash = flash_in_ram(6, 256)
        outbox = formatted(flash, DropOldest)
        for _ in range(400):
            erases = flash.erases
            self.assertEqual(outbox.append(b"t", bytes(300), 300), status.OK)
            self.assertEqual(flash.erases, erases)
            outbox.erase_ahead()
        self.assertTrue(outbox.dropped > 300)
        self.assertTrue(len(contents(outbox)) >= 4 * 12)


class TestEndOfNumbers(unittest.TestCase):
    def _live(self, outbox_class, before, ahead, blocks=4):
        flash = flash_in_ram(blocks, 256)
        outbox = outbox_class(flash)
        outbox.format(b"01234567", False, LAST_SEQ - before)
        promised = {}
        stored = 0
        for number in range(before + 150):
            payload = b"%04d" % number + bytes(296)
            answer = outbox.append(b"t", payload, 300)
            self.assertEqual(answer, status.OK, number)
            stored += 1
            promised[outbox.next_seq - 1] = payload
            self.assertEqual((outbox.load(outbox.next_seq - 1), contents(outbox)), (0, promised))
            outbox.discard(outbox.next_seq - 1)
            promised = {}
            if ahead:
                outbox.erase_ahead()
            if number % 37 == 0:
                outbox.save_state()
                outbox = mounted(flash, outbox_class)
        self.assertTrue(outbox.stream != b"01234567" and outbox.next_seq < 160)

    def test_the_old_stream_fills_the_ring_when_its_numbers_end(self):
        for outbox_class in (Outbox, DropOldest):
            for before in (12, 45, 100):
                outbox = outbox_class(flash_in_ram(4, 256))
                outbox.format(b"01234567", False, LAST_SEQ - before)
                for _ in range(before + 100):
                    if outbox.next_seq == LAST_SEQ:
                        outbox.discard_through(LAST_SEQ - 1)
                    self.assertEqual(outbox.append(b"t", bytes(300), 300), status.OK, before)
                    outbox.discard_through(outbox.next_seq - 5)
                self.assertEqual((outbox.next_seq, sorted(contents(outbox))), (100, LAST_FOUR))

    def test_the_numbers_end_with_the_tail_right_behind_the_head(self):
        for before in (0, 1, 5, 12, 25, 100):
            for ahead in (False, True):
                for outbox_class in (Outbox, DropOldest):
                    self._live(outbox_class, before, ahead)
                    self._live(outbox_class, before, ahead, 2)


if __name__ == "__main__":
    unittest.main()

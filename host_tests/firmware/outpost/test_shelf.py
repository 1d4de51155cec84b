# long: thousands of cases
"""Messages that are set aside in flash: found again after every reset, whole or not at all after
every power cut, and never programmed twice."""

import unittest

import power_loss  # noqa: F401 - on CPython a faster CRC
from fake_flash import PowerCut, flash_in_ram, image_of
from nor_flash import CUT_MODES, NorFlash, NorRuleError
from outpost import status
from outpost.memory import u32
from outpost.outbox import Outbox
from outpost.policies import DropOldest, NewestPerTopic
from outpost.ram_outbox import RamOutbox
from outpost.state_note import NotedOutbox

STREAM = b"01234567"
BLOCKS = 8
RECORD_BYTES = 1024
SIZE = 900  # of a payload: four of them are a shelf


def payload_of(seq):
    return (b"%04d " % seq) * (SIZE // 5)


def formatted(kind=Outbox, record_bytes=RECORD_BYTES, blocks=BLOCKS, **options):
    flash = flash_in_ram(blocks, options.get("page_bytes", 256))
    outbox = kind(flash, record_bytes, **options)
    assert outbox.format(STREAM) == status.OK
    return flash, outbox


def fill(outbox, count, size=SIZE):
    for _ in range(count):
        payload = payload_of(outbox.next_seq)
        assert outbox.append(b"t/%d" % outbox.next_seq, payload, size) == status.OK
    return outbox


def filled(blocks, kind=Outbox):
    """Full: the next message is refused, or the oldest ones are dropped for it."""
    return top_up(formatted(kind, blocks=blocks)[1])


def top_up(outbox):
    while not outbox.dropped and outbox.append(b"t/0", payload_of(0), SIZE) == status.OK:
        pass
    return outbox


def loaded(outbox):
    middle = outbox.topic_at + outbox.topic_length
    topic = bytes(outbox.buffer[outbox.topic_at : middle])
    return topic, bytes(outbox.buffer[middle : middle + outbox.payload_length]), outbox.flags


def on_shelf(outbox):
    """{number of the topic: payload}"""
    found = {}
    for index in range(outbox.aside):
        assert outbox.shelf().load(index) == status.OK and outbox.loaded_seq == -1
        topic, payload, _ = loaded(outbox)
        found[int(topic[2:])] = payload
    assert len(found) == outbox.aside
    return found


def mounted(flash, kind=Outbox, **options):
    outbox = kind(flash, RECORD_BYTES, **options)
    assert outbox.mount() == status.OK
    return outbox


class TestEveryOutbox(unittest.TestCase):
    def each(self):
        yield RamOutbox(16, 1000)
        for kind in (Outbox, NotedOutbox, DropOldest):
            yield formatted(kind)[1]
        yield formatted(NewestPerTopic, 256, 12, topics=4)[1]

    def test_set_aside_told_loaded_released(self):
        for outbox in self.each():
            size = 100
            self.assertEqual((outbox.aside, outbox.shelf().has(0)), (0, False))
            self.assertEqual(outbox.shelf().put(0), status.EMPTY)
            self.assertEqual(outbox.shelf().load(0), status.EMPTY)
            self.assertEqual(outbox.shelf().release(0), status.EMPTY)
            fill(outbox, 6, size)
            outbox.append(b"t/6", b"kept", 4, 0x60)
            for seq in (2, 6, 4, 2):
                self.assertEqual(outbox.shelf().put(seq), status.OK, (outbox, seq))
            self.assertEqual(outbox.aside, 3)
            aside = [seq for seq in range(8) if outbox.shelf().has(seq)]
            self.assertEqual(aside, [2, 4, 6])
            self.assertEqual((outbox.oldest_seq, outbox.next_seq), (0, 7))  # none is freed
            self.assertEqual((outbox.load(2), loaded(outbox)[0]), (status.OK, b"t/2"))
            self.assertEqual((outbox.shelf().load(1), outbox.loaded_seq), (status.OK, -1))
            self.assertEqual(loaded(outbox), (b"t/6", b"kept", 0x60))
            self.assertEqual((outbox.load(3), loaded(outbox)[0]), (status.OK, b"t/3"))
            self.assertEqual(outbox.shelf().release(3), status.EMPTY)
            self.assertEqual((outbox.shelf().release(0), outbox.aside), (status.OK, 2))
            self.assertEqual((outbox.shelf().has(2), outbox.shelf().has(4)), (False, True))
            self.assertEqual(set(on_shelf(outbox)), {4, 6})
            while outbox.aside:
                self.assertEqual(outbox.shelf().release(0), status.OK)
            self.assertEqual(outbox.shelf().load(0), status.EMPTY)
            self.assertEqual(outbox.shelf().put(5), status.OK)
            self.assertEqual(set(on_shelf(outbox)), {5})

    def test_a_mark_is_told_with_its_message(self):
        for outbox in self.each():
            fill(outbox, 3, 100)
            for seq, mark in ((0, 0), (1, 8), (2, 0)):
                self.assertEqual(outbox.shelf().put(seq, mark), status.OK)
            self.assertEqual(outbox.shelf().put(0, 8), status.OK)  # it is there already
            for index, mark in ((1, 1), (0, 0), (1, 1), (2, 0)):
                self.assertEqual(outbox.shelf().load(index), status.OK)
                self.assertEqual((outbox.shelf().seq, outbox.shelf().mark), (index, mark))
            self.assertTrue(outbox.shelf().has(1))
            self.assertEqual(outbox.shelf().release(0), status.OK)
            self.assertEqual((outbox.shelf().load(0), outbox.shelf().mark), (status.OK, 1))

    def test_the_ring_goes_on_around_the_shelf(self):
        for outbox in self.each():
            fill(outbox, 2, 100)
            self.assertEqual(outbox.shelf().put(0), status.OK)
            outbox.discard(0)
            for _ in range(200):
                payload = payload_of(outbox.next_seq)
                self.assertEqual(outbox.append(b"t/9", payload, 100), status.OK)
                self.assertEqual(outbox.load(outbox.oldest_seq), status.OK)
                outbox.discard(outbox.loaded_seq)
            self.assertEqual(on_shelf(outbox), {0: payload_of(0)[:100]})


class TestFlash(unittest.TestCase):
    def test_found_again_by_mount_with_which_are_in_the_ring_too(self):
        for align, page_bytes in ((4, 256), (32, 256), (256, 256), (16, 16)):
            options = {"align": align, "page_bytes": page_bytes}
            flash, outbox = formatted(**options)
            fill(outbox, 5)
            outbox.shelf().put(1)
            outbox.shelf().put(3)
            outbox.discard(0)
            outbox.discard(1)
            outbox.save_state()
            before = flash.operations
            outbox = mounted(flash, **options)
            self.assertEqual(flash.operations, before)
            self.assertEqual((outbox.oldest_seq, outbox.aside), (2, 2))
            self.assertEqual((outbox.shelf().has(1), outbox.shelf().has(2)), (True, False))
            self.assertTrue(outbox.shelf().has(3))
            self.assertEqual(on_shelf(outbox), {1: payload_of(1), 3: payload_of(3)})
            self.assertEqual(outbox.shelf().release(0), status.OK)
            outbox = mounted(flash, **options)
            self.assertEqual(on_shelf(outbox), {3: payload_of(3)})
            self.assertEqual(outbox.shelf().release(0), status.OK)
            outbox = mounted(flash, **options)
            self.assertEqual((outbox.aside, outbox.lent), (0, ()))

    def test_a_mark_survives_a_start_and_a_new_block_and_leaves_with_its_message(self):
        flash, outbox = formatted()
        fill(outbox, 2)
        for seq in (0, 1):
            outbox.shelf().put(seq, seq)
        block = outbox._shelf._now.block
        while outbox._shelf._now.block == block:
            fill(outbox, 1)
            self.assertEqual(outbox.shelf().put(outbox.next_seq - 1), status.OK)
            if outbox.aside == 4:
                self.assertEqual(outbox.shelf().release(3), status.OK)
        outbox = mounted(flash)
        marks = []
        for index in range(outbox.aside):
            outbox.shelf().load(index)
            marks.append(outbox.shelf().mark)
        self.assertEqual(marks[:2], [0, 1])
        self.assertFalse(any(marks[2:]))
        self.assertEqual((outbox.shelf().has(1), outbox.shelf().release(1)), (True, status.OK))
        outbox = mounted(flash)
        self.assertEqual((outbox.shelf().has(0), outbox.shelf().has(1)), (True, False))

    def test_of_another_stream_with_the_same_number(self):
        _, outbox = formatted()
        fill(outbox, 2)
        outbox.shelf().put(0)
        outbox.stream = b"89abcdef"
        self.assertFalse(outbox.shelf().has(0))
        self.assertEqual((outbox.shelf().put(0), outbox.aside), (status.OK, 2))

    def test_full_of_held_ones_is_told_and_erases_nothing(self):
        flash, outbox = formatted()
        fill(outbox, 5)
        self.assertEqual([outbox.shelf().put(seq) for seq in range(4)], [status.OK] * 4)
        before = flash.operations
        self.assertEqual((outbox.shelf().put(4), outbox.aside), (status.FULL, 4))
        self.assertEqual(flash.operations, before)

    def test_full_of_released_ones_goes_on_in_another_block(self):
        flash, outbox = formatted()
        for _ in range(30):
            fill(outbox, 1)
            seq = outbox.next_seq - 1
            self.assertEqual(outbox.shelf().put(seq), status.OK)
            outbox.discard(seq)
            if outbox.aside == 3:
                self.assertEqual(outbox.shelf().release(1), status.OK)
            wanted = on_shelf(outbox)
            self.assertEqual(on_shelf(mounted(flash_in_ram(BLOCKS, 256, image_of(flash)))), wanted)
            self.assertTrue(outbox.shelf().has(0) and outbox.shelf().has(seq))
        while outbox.aside:
            outbox.shelf().release(0)
        self.assertEqual(outbox._out, ())

    def test_without_a_block_that_could_be_lent_it_is_full(self):
        _, outbox = formatted(blocks=3)
        self.assertEqual(fill(outbox, 2).shelf().put(0), status.OK)
        _, outbox = formatted(blocks=2)
        self.assertEqual(fill(outbox, 2).shelf().put(0), status.FULL)
        outbox = filled(3)
        self.assertEqual((outbox.shelf().put(0), outbox.aside), (status.FULL, 0))
        self.assertEqual((outbox.load(0), outbox.oldest_seq), (status.OK, 0))

    def test_a_full_ring_of_four_blocks_has_spared_one_for_the_shelf(self):
        for made in (Outbox, DropOldest, NotedOutbox):
            outbox = filled(4, made)
            seq = outbox.oldest_seq
            self.assertEqual(outbox.shelf().put(seq), status.OK, made)
            self.assertTrue(outbox.shelf().has(seq))

    def test_a_full_ring_spares_another_block_when_the_shelf_has_one(self):
        """So a shelf without room for its records can go on in that one."""
        for made in (Outbox, NotedOutbox):
            outbox = filled(6, made)
            for _ in range(50):
                seq = outbox.oldest_seq
                self.assertEqual(outbox.shelf().put(seq), status.OK, made)
                outbox.discard(seq)
                top_up(outbox)
                if outbox.aside > 2:
                    self.assertEqual(outbox.shelf().release(0), status.OK, made)

    def test_a_call_from_inside_a_call_is_busy(self):
        _, outbox = formatted()
        fill(outbox, 2)
        outbox.shelf().put(0)
        outbox._busy = True
        found = outbox.shelf().put(1), outbox.shelf().release(0), outbox.shelf().load(0)
        self.assertEqual(found, (status.BUSY, status.BUSY, status.EMPTY))

    def test_a_driver_that_raises_is_a_status(self):
        for at in range(1, 9):
            flash, outbox = formatted()
            fill(outbox, 3)
            outbox.shelf().put(0)
            left, write = [at], flash.writeblocks

            def failing(block, buf, offset=None, left=left, write=write):
                left[0] -= 1
                if left[0] == 0:
                    raise OSError(5)
                write(block, buf, offset)

            flash.writeblocks = failing
            answers = outbox.shelf().put(1), outbox.shelf().release(0), outbox.shelf().put(2)
            self.assertTrue(set(answers) <= {status.OK, status.STORAGE}, answers)
            wanted = {seq for seq, good in ((1, answers[0]), (2, answers[2])) if good == 0}
            wanted |= set() if answers[1] == 0 else {0}
            self.assertTrue(wanted <= set(on_shelf(mounted(flash))), (at, answers))

    def test_a_block_that_takes_no_erase_is_left_out_like_any_other(self):
        for blocks, answer in ((3, status.FULL), (4, status.OK)):
            flash, outbox = formatted(blocks=blocks)
            fill(outbox, 2)
            dead, erase = outbox._after(outbox._head), flash.ioctl

            def failing(op, block, dead=dead, erase=erase):
                if op == 6 and block == dead:
                    raise OSError(5)
                return erase(op, block)

            flash.ioctl = failing
            self.assertEqual(outbox.shelf().put(0), answer, blocks)
            self.assertEqual((outbox.left_out, outbox._out.count(dead)), (1, 1))
            for seq in range(40):  # the ring goes on in the others
                fill(outbox, 1)
                self.assertEqual(outbox.next_seq, seq + 3)
                outbox.discard_through(seq + 1)

    def test_a_flipped_bit_costs_one_message_at_most(self):
        flash, outbox = formatted()
        fill(outbox, 4)
        for seq in range(4):
            outbox.shelf().put(seq)
        image, block = image_of(flash), outbox._shelf._now.block
        for place in range(0, 3800, 61):
            twisted = bytearray(image)
            twisted[block * 4096 + place] ^= 1 << place % 8
            found = on_shelf(mounted(flash_in_ram(BLOCKS, 256, bytes(twisted))))
            self.assertTrue(len(found) >= 3, place)
            for seq, payload in found.items():
                self.assertEqual(payload, payload_of(seq))


class OnceFlash(NorFlash):
    """A chip that tells of a byte that is programmed twice since its erase."""

    def _change(self, old, new):
        if new is not None:
            for i in range(len(new)):
                if new[i] != 0xFF and old[i] != 0xFF:
                    raise NorRuleError("programmed twice")
        NorFlash._change(self, old, new)


# What a shelf goes through: messages are stored, set aside, released; the third shelf and the
# giving back included.
STEPS = (
    "append append append aside.0 aside.1 discard discard aside.2 release append append aside.3 "
    "aside.4 release append aside.5 append release release aside.6 release release release append"
).split()


class Life:
    """STEPS on a chip, cut or not, held against a model."""

    def __init__(self, flash):
        self.flash = flash
        self.outbox = Outbox(flash, RECORD_BYTES)
        self.aside = []
        self.at = 0
        self.pending = None

    def run(self):
        while self.at < len(STEPS):
            self.step(STEPS[self.at])
            self.at += 1

    def step(self, step):
        outbox = self.outbox
        if step == "append":
            fill(outbox, 1)
        elif step == "discard":
            outbox.discard(outbox.oldest_seq)
        elif step == "release":
            if self.aside:
                self.pending = self.aside[0]
                assert outbox.shelf().release(0) == status.OK
                self.aside.pop(0)
        else:
            seq = int(step[6:])
            if seq < outbox.oldest_seq or seq in self.aside:
                return
            self.pending = seq
            assert outbox.shelf().put(seq) == status.OK, seq
            self.aside.append(seq)
        self.pending = None

    def check(self):
        """After a cut: what was promised, and the message of the call that was cut or not."""
        self.outbox = mounted(self.flash)
        found = on_shelf(self.outbox)
        for seq, payload in found.items():
            assert payload == payload_of(seq)
        promised, allowed = set(self.aside), set(self.aside) | {self.pending}
        if STEPS[self.at] == "release":
            promised -= {self.pending}
        assert promised <= set(found) <= allowed, (promised, set(found), allowed)
        held = [shelf[0] for shelf in self.outbox._shelf._now.held] if found else []
        assert sorted(held) == sorted(found)
        self.aside = held
        self.pending = None
        for seq in range(self.outbox.oldest_seq, self.outbox.next_seq):
            if self.outbox.load(seq) == status.OK and self.outbox.loaded_seq == seq:
                assert loaded(self.outbox)[1] == payload_of(seq)


class TestPowerCuts(unittest.TestCase):
    def test_nothing_is_programmed_twice(self):
        flash = flash_in_ram(BLOCKS, 256)
        once = OnceFlash(flash._file, BLOCKS, 256)
        assert Outbox(once, RECORD_BYTES).format(STREAM) == status.OK
        life = Life(once)
        assert life.outbox.mount() == status.OK
        life.run()
        self.assertEqual((life.outbox.aside, life.outbox._out), (0, ()))

    def test_whole_or_not_at_all_after_a_cut_in_every_operation_and_in_the_next(self):
        image = image_of(formatted()[0])
        life = Life(flash_in_ram(BLOCKS, 256, image))
        assert life.outbox.mount() == status.OK
        life.run()
        operations = life.flash.operations
        cuts = 0
        for number, mode in enumerate(CUT_MODES):
            for at in range(1 + number % 2, operations + 1, 2):
                life = Life(flash_in_ram(BLOCKS, 256, image))
                assert life.outbox.mount() == status.OK
                life.flash.cut_at, life.flash.cut_mode = at, mode
                for again in range(1, 4):
                    try:
                        life.run()
                        break
                    except PowerCut:
                        cuts += 1
                        life.check()
                        life.flash.cut_at = life.flash.operations + again * 2
                else:
                    life.flash.cut_at = 0
                    life.run()
                life.flash.cut_at = 0
                while life.outbox.aside:
                    assert life.outbox.shelf().release(0) == status.OK
                life.outbox.shelf().tidy()
                self.assertEqual((life.outbox.left_out, life.outbox._out), (0, ()), (mode, at))
        self.assertTrue(cuts > 200, cuts)


class TestMount(unittest.TestCase):
    def test_a_torn_header_of_a_lent_block_is_no_sector_and_no_shelf(self):
        flash, outbox = formatted()
        fill(outbox, 3)
        outbox.shelf().put(0)
        block = outbox._shelf._now.block
        self.assertEqual(u32(image_of(flash)[block * 4096 : block * 4096 + 4], 0) & 0xFFFF, 0x534F)
        self.assertEqual(mounted(flash).lent, (block,))


if __name__ == "__main__":
    unittest.main()

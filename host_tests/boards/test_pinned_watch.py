# micropython-only: CPython has no VfsLfs2
"""Pinned files that are lost while the program runs, and an outbox that is gone at a start: on a
real littlefs, through the board's own open() and idle().
"""

import gc
import os
import unittest

import vfs

from fake_machine import Bench, FakeBlockDevice, flash_of
from outpost.outbox import Outbox
from station.settings import check
from support import pinning
from support.pinned import PinnedError

NAME = "RPI_PICO_W"
BLOCKS = 8
MINUTE_MS = 60_000
GIVEN = {
    "device_id": "board-1",
    "broker_host": "broker.test",
    "mode": "broker",
    "wifi_ssid": "home",
    "outbox_blocks": BLOCKS,
}


class Client:
    """What idle() gets: a client has a session, and that its outbox."""

    failures = 0

    def __init__(self, outbox):
        self.session, self.outbox = self, outbox


class Case(unittest.TestCase):
    client = None

    def setUp(self):
        self.flash = flash_of(NAME)
        self.make_filesystem()

    def tearDown(self):
        vfs.umount("/outbox")

    def make_filesystem(self):
        raw = FakeBlockDevice(self.flash)
        vfs.VfsLfs2.mkfs(raw, progsize=256)
        vfs.mount(vfs.VfsLfs2(raw, progsize=256), "/outbox")

    def started(self):
        """A board at its first start in a row, open."""
        self.desk = Bench(NAME, self.flash)
        self.desk.ticks.ms = 1000  # the fake's own sums would take heap above 2^30
        board = self.desk.board
        board.begin()
        return board.open(check(GIVEN))

    def outbox(self, board):
        outbox = Outbox(board.device, align=256, page_bytes=256)
        if outbox.mount() != 0:
            self.assertEqual(outbox.format(b"01234567"), 0)
        self.client = Client(outbox)
        return outbox

    def append(self, outbox, count):
        """Statuses of that many messages; what was held is delivered."""
        found = []
        for _ in range(count):
            found.append(outbox.append(b"t", b"x" * 200, 200))
            outbox.discard_through(outbox.next_seq - 1)
        return found

    def idle_for(self, board, ms):
        until = self.desk.ticks.ms + ms
        while self.desk.ticks.ms < until:
            self.desk.ticks.ms += 500
            board.idle(self.client)

    def content(self, block):
        buf = bytearray(4096)
        self.flash.readblocks(block, buf, 0)
        return bytes(buf)


class TestWatch(Case):
    def lose(self, which, minutes):
        """A pinned file goes while the program runs; littlefs gives its block to another file.
        Returns the board, the outbox, the block."""
        board = self.started()
        outbox = self.outbox(board)
        self.append(outbox, 3)
        self.idle_for(board, 2 * MINUTE_MS)
        index = which(outbox)
        block = board.device.blocks[index]
        os.remove("/outbox/%04d.pin" % board.device.entries[index][0])
        self.idle_for(board, minutes * MINUTE_MS)
        self.flash.ioctl(6, block)
        self.flash.writeblocks(block, b"\x5a" * 4096, 0)  # as littlefs would: somebody's file
        return board, outbox, block

    def goes_on(self, board, outbox, block):
        before = self.content(block)
        statuses = self.append(outbox, 400)
        self.assertTrue(before == self.content(block), "somebody's file was changed")
        self.assertEqual(set(statuses[2:]), {0})  # the ring goes on without the block
        self.assertEqual(outbox.left_out, 1)
        return statuses

    def test_of_the_block_being_filled_within_a_minute(self):
        board, outbox, block = self.lose(lambda outbox: outbox._head, 1)
        statuses = self.goes_on(board, outbox, block)
        self.assertEqual(statuses[0], -5)  # STORAGE: told, not lost

    def test_of_the_block_that_comes_next_within_a_minute(self):
        board, outbox, block = self.lose(lambda outbox: (outbox._head + 1) % BLOCKS, 1)
        self.goes_on(board, outbox, block)

    def test_of_any_block_within_a_minute_a_block(self):
        board, outbox, block = self.lose(lambda outbox: (outbox._head + 5) % BLOCKS, BLOCKS)
        self.goes_on(board, outbox, block)

    def test_it_is_told_with_the_file_and_counted(self):
        board, _, _ = self.lose(lambda outbox: (outbox._head + 5) % BLOCKS, BLOCKS)
        self.assertEqual(board.pins_lost(), 1)
        self.assertTrue(".pin: gone" in board.device.fault, board.device.fault)
        os.remove("/outbox/%04d.pin" % board.device.entries[0][0])
        self.idle_for(board, BLOCKS * MINUTE_MS)
        self.assertEqual(board.pins_lost(), 2)

    def test_what_is_held_can_still_be_read(self):
        board = self.started()
        outbox = self.outbox(board)
        self.append(outbox, 3)
        for number in range(10):
            self.assertEqual(outbox.append(b"t", b"%d" % number, 1), 0)
        os.remove("/outbox/%04d.pin" % board.device.entries[outbox._head][0])
        self.idle_for(board, 2 * MINUTE_MS)
        self.assertEqual(board.pins_lost(), 1)
        seq, found = 0, 0
        while outbox.load(seq) == 0:
            seq, found = outbox.loaded_seq + 1, found + 1
        self.assertEqual(found, 10)

    def test_sound_files_are_never_found_lost_however_the_ring_goes_round(self):
        board = self.started()
        outbox = self.outbox(board)
        for _ in range(60):
            self.assertEqual(set(self.append(outbox, 7)), {0})
            outbox.erase_ahead()
            self.idle_for(board, MINUTE_MS // 2)
        self.assertEqual((board.pins_lost(), board.device.fault), (0, ""))

    def test_a_check_is_due_each_15_s_and_idle_takes_no_heap_between_two(self):
        board = self.started()
        self.outbox(board)
        self.idle_for(board, MINUTE_MS)
        gc.collect()
        gc.disable()
        left = []
        for _ in range(600):  # 5 min
            before = gc.mem_alloc()
            self.desk.ticks.ms += 495
            board.idle(self.client)
            left.append(gc.mem_alloc() - before)
        gc.enable()
        checks = [one for one in left if one]
        self.assertEqual(len(checks), 20)
        print("a check of a pinned file leaves at most %d bytes of garbage" % max(checks))
        self.assertTrue(max(checks) <= 3200, str(checks))


class TestGone(Case):
    """The first start makes the outbox; a later one that finds none says so."""

    def with_messages(self):
        board = self.started()
        outbox = self.outbox(board)
        for _ in range(50):
            self.assertEqual(outbox.append(b"t", b"x" * 200, 200), 0)
        return board

    def refuses(self, words):
        before = [self.content(block) for block in range(64)]
        with self.assertRaisesRegex(PinnedError, words):
            self.started()
        after = [self.content(block) for block in range(64)]
        self.assertTrue(before == after, "the flash was changed")

    def test_a_filesystem_made_anew_is_told(self):
        self.with_messages()
        vfs.umount("/outbox")
        self.make_filesystem()
        self.refuses("parts of an earlier outbox in 4 blocks.*outpost outbox")

    def test_a_folder_that_was_deleted_is_told(self):
        self.with_messages()
        for name in os.listdir("/outbox"):
            os.remove("/outbox/" + name)
        self.refuses("parts of an earlier outbox in 4 blocks")

    def test_said_on_purpose_a_new_one_is_made(self):
        self.with_messages()
        vfs.umount("/outbox")
        self.make_filesystem()
        pinning.start_new("/outbox")
        self.assertEqual(self.started().device.ioctl(4, 0), BLOCKS)
        self.assertEqual(self.started().device.newest(), -1)

    def test_not_while_there_is_one(self):
        self.with_messages()
        with self.assertRaisesRegex(PinnedError, "is there"):
            pinning.start_new("/outbox")
        self.assertEqual(self.started().device.ioctl(4, 0), BLOCKS)

    def test_a_cut_in_the_first_start_is_no_loss(self):
        self.with_messages()
        os.rename("/outbox/map", "/outbox/unfinished")
        self.assertEqual(self.started().device.newest(), -1)

    def test_after_release_of_an_empty_one_the_next_start_makes_one(self):
        raw = FakeBlockDevice(self.flash)
        device = pinning.create_first(raw, "/outbox/inner", BLOCKS, b"12345678")
        outbox = Outbox(device, align=256, page_bytes=256)
        outbox.mount()
        outbox.format(b"01234567")
        self.append(outbox, 100)
        pinning.release("/outbox/inner", outbox)
        self.assertEqual(os.listdir("/outbox"), [])
        device = pinning.create_first(raw, "/outbox/inner", BLOCKS, b"12345678")
        self.assertEqual(device.newest(), -1)

    def test_a_file_of_somebody_that_begins_alike_is_no_outbox(self):
        with open("/outbox/mine", "wb") as file:
            file.write(b"OBSERVATIONS" + bytes(4084))
        self.assertEqual(self.started().device.newest(), -1)


class TestReadOnly(Case):
    def test_what_the_files_no_longer_own_can_be_read_and_not_written(self):
        """For `outpost outbox`: what is held is worth saving when the board refuses to start."""
        board = self.started()
        outbox = self.outbox(board)
        for number in range(10):
            self.assertEqual(outbox.append(b"t", b"%d" % number, 1), 0)
        os.remove("/outbox/0003.pin")
        with self.assertRaises(PinnedError):
            self.started()
        raw, key = FakeBlockDevice(self.flash), self.desk._fakes["machine"].unique_id()
        device = pinning.read_only(raw, "/outbox", key)
        found = Outbox(device, align=256, page_bytes=256)
        self.assertEqual((found.mount(), found.next_seq, found.oldest_seq), (0, 10, 0))
        with self.assertRaises(OSError):
            device.writeblocks(0, bytes(256), 0)
        with self.assertRaises(OSError):
            device.ioctl(6, 0)


if __name__ == "__main__":
    unittest.main()

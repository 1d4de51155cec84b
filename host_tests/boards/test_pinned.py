# micropython-only: CPython has no VfsLfs2
# long: each way in which the files may be damaged
"""Pinned blocks on a real littlefs: made, checked, grown, released; each way in which the files may
have lost their blocks.
"""

import gc
import os
import re
import time
import unittest

import micropython
import vfs

from outpost.outbox import Outbox
from outpost.status import BLANK
from pinned_nor import Chip, Port
from support import pinned, pinning

BLOCKS = 40
PLACE = "/pinned"
FOLDER = PLACE + "/outbox"
BOARD = b"board-1"
TOPIC = b"t/1"


def mounted(outbox):
    status = outbox.mount()
    if status != 0:
        raise AssertionError("mount: status %d" % status)
    return outbox


def payloads(outbox):
    found, seq = [], 0
    while outbox.load(seq) == 0:
        at = outbox.topic_at + outbox.topic_length
        found.append(bytes(outbox.buffer[at : at + outbox.payload_length]))
        seq = outbox.loaded_seq + 1
    return found


def append(outbox, first, last, filler=b""):
    for number in range(first, last):
        assert (
            outbox.append(TOPIC, b"%d%s" % (number, filler), len(b"%d%s" % (number, filler))) == 0
        )


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


class Board:
    """A chip with a littlefs on it, as the stock firmware mounts it."""

    def __init__(self, image=None, unit_bytes=256, blocks=BLOCKS):
        leave()
        self.chip = Chip(blocks, image)
        self.unit_bytes = unit_bytes
        self.drive = Port(self.chip, unit_bytes)
        self.raw = Port(self.chip, unit_bytes, is_outbox=True)
        if image is None:
            vfs.VfsLfs2.mkfs(self.drive, progsize=unit_bytes)
        vfs.mount(vfs.VfsLfs2(self.drive, progsize=unit_bytes), PLACE)

    def restarted(self):
        return Board(self.chip.image, self.unit_bytes, self.chip.blocks)

    def create(self, count=4):
        return pinning.create(self.raw, FOLDER, count, b"0badcafe", BOARD)

    def open(self, board=BOARD, at_once=False):
        return pinned.open_blocks(self.raw, FOLDER, board, at_once)

    def outbox(self, device):
        return Outbox(device, page_bytes=self.unit_bytes)


def leave():
    try:
        vfs.umount(PLACE)
    except OSError:
        pass


def with_messages(count=4, messages=60, unit_bytes=256):
    """(board, its outbox) with messages in several sectors."""
    board = Board(unit_bytes=unit_bytes)
    outbox = board.outbox(board.create(count))
    outbox.mount()
    outbox.format(b"01234567")
    append(outbox, 0, messages, b"x" * 100)
    return board, outbox


class Case(unittest.TestCase):
    def tearDown(self):
        leave()


class TestUse(Case):
    def test_created_blocks_are_a_blank_region_that_keeps_messages_over_a_restart(self):
        for unit_bytes in (256, 32):
            board = Board(unit_bytes=unit_bytes)
            outbox = board.outbox(board.create())
            self.assertEqual(outbox.mount(), BLANK)
            self.assertEqual(outbox.format(b"01234567"), 0)
            append(outbox, 0, 60, b"x" * 100)
            board = board.restarted()
            outbox = mounted(board.outbox(board.open()))
            self.assertEqual(payloads(outbox), [b"%d%s" % (n, b"x" * 100) for n in range(60)])

    def test_the_outbox_of_a_device_that_was_grown_refuses_all(self):
        board, outbox = with_messages()
        grown = pinning.grow(outbox._device, 2, b"87654321")
        before = bytes(board.chip.image)
        for _ in range(2):
            with self.assertRaises((IndexError, ValueError)):
                outbox.append(TOPIC, b"x", 1)
        self.assertTrue(before == bytes(board.chip.image))
        self.assertEqual(len(payloads(mounted(board.outbox(grown)))), 60)

    def test_each_block_is_its_files(self):
        board = Board()
        device = board.create(8)
        self.assertEqual(len(set(device.blocks)), 8)
        for index, block in enumerate(device.blocks):
            device.writeblocks(index, bytes([index]) * 256, 512)
            content = read("%s/%04d.pin" % (FOLDER, index))
            self.assertEqual((len(content), content[512:768]), (4096, bytes([index]) * 256))
            self.assertEqual(board.chip.image[block * 4096 + 512], index)

    def test_600_files_rewritten_and_removed_and_remounts_touch_no_pinned_block(self):
        board, outbox = with_messages(16)
        expected = payloads(outbox)
        blocks = board.open().blocks
        before = [bytes(board.chip.image[block * 4096 : block * 4096 + 4096]) for block in blocks]
        for number in range(600):
            if number % 100 == 0:
                board = board.restarted()
                # a program or erase of littlefs there stops the test
                board.drive.forbidden = blocks
            write(PLACE + "/f%d" % (number % 5), bytes([number & 255]) * (number * 37 % 9000))
            if number % 3 == 0:
                os.remove(PLACE + "/f%d" % (number % 5))
        self.assertTrue(
            before
            == [bytes(board.chip.image[block * 4096 : block * 4096 + 4096]) for block in blocks]
        )
        self.assertEqual(payloads(mounted(board.outbox(board.open()))), expected)

    def test_a_full_drive_and_a_busy_outbox_leave_each_other_alone(self):
        board, outbox = with_messages()
        board.drive.forbidden = board.open().blocks
        with self.assertRaises(OSError):
            write(PLACE + "/big", b"b" * (4096 * BLOCKS))
        append(outbox, 60, 70)
        os.remove(PLACE + "/big")
        write(PLACE + "/after", b"a" * 5000)
        self.assertEqual(len(payloads(mounted(board.outbox(board.open())))), 70)
        self.assertEqual(read(PLACE + "/after"), b"a" * 5000)

    def test_create_says_when_the_drive_is_too_full_and_leaves_it_usable(self):
        board = Board()
        with self.assertRaisesRegex(pinned.PinnedError, "blocks are free, 42 are needed"):
            board.create(38)
        self.assertEqual(len(board.create(4).blocks), 4)

    def test_create_finds_out_that_the_raw_device_is_another_one(self):
        board = Board()
        board.raw = Port(Chip(BLOCKS), 256)
        with self.assertRaisesRegex(pinned.PinnedError, ".pin: not on the raw device"):
            board.create()
        self.assertEqual(board.raw.programs + board.raw.erases, 0)

    def test_create_leaves_an_outbox_that_is_there_alone(self):
        board, outbox = with_messages()
        with self.assertRaisesRegex(pinned.PinnedError, "is there already"):
            board.create()
        os.remove(FOLDER + "/map")
        with self.assertRaisesRegex(pinned.PinnedError, "may hold messages"):
            board.create()
        self.assertEqual(len(payloads(mounted(outbox))), 60)


class TestDevice(Case):
    def test_addresses_outside_are_refused(self):
        device = Board().create(4)
        page = bytearray(256)
        for block, offset in ((-1, 0), (4, 0), (0, -256), (0, 4096), (3, 3841)):
            with self.assertRaises(ValueError):
                device.readblocks(block, page, offset)
            with self.assertRaises(ValueError):
                device.writeblocks(block, page, offset)
        for block in (-1, 4):
            with self.assertRaises(ValueError):
                device.ioctl(6, block)

    def test_a_write_without_offset_erases_first(self):
        device = Board().create(4)
        page = bytearray(4096)
        device.writeblocks(1, b"\x00" * 4096)
        device.writeblocks(1, b"\x01" * 4096)
        device.readblocks(1, page)
        self.assertEqual(page, b"\x01" * 4096)
        self.assertEqual((device.ioctl(4, 0), device.ioctl(5, 0), device.ioctl(3, 0)), (4, 4096, 0))

    def test_read_program_and_erase_take_no_heap(self):
        device = Board().create(4)
        page = bytearray(256)
        device.readblocks(3, page, 256)
        gc.collect()
        gc.disable()
        net, gross = gc.mem_alloc(), micropython.mem_total()
        micropython.heap_lock()
        for index in range(4):
            device.ioctl(6, index)
            device.writeblocks(index, page, 512)
            device.readblocks(index, page, 512)
        micropython.heap_unlock()
        net, gross = gc.mem_alloc() - net, micropython.mem_total() - gross
        gc.enable()
        self.assertEqual((net, gross), (0, 0))

    def test_append_over_pinned_blocks_takes_no_heap(self):
        _, outbox = with_messages(8, 1)
        self.assert_no_heap(outbox)

    def test_append_over_opened_blocks_takes_no_heap_once_all_are_checked(self):
        board, _ = with_messages(8, 1)
        device = board.restarted().open()
        checked = 1
        while device.watch():
            checked += 1
        self.assertEqual(checked, 8)
        self.assert_no_heap(mounted(board.outbox(device)))

    def test_a_block_is_checked_once_and_its_program_and_erase_take_no_heap_from_then_on(self):
        board, _ = with_messages(4, 1)
        device = board.restarted().open()
        page = bytearray(256)
        for index in range(4):
            device.ioctl(6, index)
        micropython.heap_lock()
        try:
            for index in range(4):
                device.ioctl(6, index)
                device.writeblocks(index, page, 512)
        finally:
            micropython.heap_unlock()

    def assert_no_heap(self, outbox):
        payload = bytes(64)
        outbox.discard(0)
        gc.collect()
        net, gross = gc.mem_alloc(), micropython.mem_total()
        micropython.heap_lock()
        good = 0
        for _ in range(400):
            good += outbox.append(TOPIC, payload, 64) == 0
            outbox.discard(outbox.next_seq - 1)
        micropython.heap_unlock()
        net, gross = gc.mem_alloc() - net, micropython.mem_total() - gross
        self.assertEqual((net, gross, good), (0, 0, 400))


class TestRefuses(Case):
    """Each fault on a chip of its own; the clock is two seconds on, because that is what mtime can
    tell apart.
    """

    image = None

    @classmethod
    def setUpClass(cls):
        board, _ = with_messages()
        TestRefuses.image = bytes(board.chip.image)
        time.sleep(2.1)

    def refuse(self, board, pattern, key=BOARD):
        """open_blocks() raises, checking all at once or not, and changes nothing."""
        before = bytes(board.chip.image)
        for at_once in (False, True):
            with self.assertRaisesRegex(pinned.PinnedError, pattern):
                board.open(key, at_once)
        self.assertTrue(before == bytes(board.chip.image), "the chip was changed")

    def refuse_block(self, board, index, pattern):
        """open_blocks() at once raises; else each program and erase of the block, and watch()
        finds it. They change nothing.
        """
        before = bytes(board.chip.image)
        self.assertNotEqual(index, board.open().newest())
        for write in (
            lambda device: device.ioctl(6, index),
            lambda device: device.writeblocks(index, b"\x00" * 256, 512),
            lambda device: device.writeblocks(index, b"\x00" * 4096),
            lambda device: self.write_when_watched(device, index),
        ):
            device = board.open()
            for _ in range(2):
                with self.assertRaises(OSError):
                    write(device)
            self.assertTrue(re.search(pattern, device.fault), device.fault)
            self.assertTrue(device.lost >= 1)
        for check in (
            lambda: board.open(at_once=True),
            lambda: board.open().own(index),
            lambda: board.open().check(),
        ):
            with self.assertRaisesRegex(pinned.PinnedError, pattern):
                check()
        self.assertTrue(before == bytes(board.chip.image), "the chip was changed")

    def write_when_watched(self, device, index):
        """As an outbox writes: past the check of the device."""
        while device.watch():
            pass
        outbox = Outbox(device)
        device.guard(outbox)
        outbox._raw.writeblocks(outbox._place[index], b"\x00" * 256, 512)

    def refuse_erase(self, board, index, pattern):
        """An outbox goes round the ring up to the block, and leaves it and all that is not pinned
        alone.
        """
        outbox = mounted(board.outbox(board.open()))
        not_ours = [block for block in range(BLOCKS) if block not in outbox._device.blocks]
        not_ours.append(outbox._device.blocks[index])
        before = [bytes(board.chip.image[block * 4096 : block * 4096 + 4096]) for block in not_ours]
        statuses = []
        for _ in range(200):
            outbox.discard_through(outbox.next_seq - 1)
            statuses.append(outbox.append(TOPIC, b"x" * 100, 100))
        self.assertTrue(statuses[0] == 0 and outbox._device.lost >= 1)
        self.assertTrue(re.search(pattern, outbox._device.fault), outbox._device.fault)
        self.assertTrue(
            before
            == [bytes(board.chip.image[block * 4096 : block * 4096 + 4096]) for block in not_ours]
        )

    def test_nothing_when_nothing_happened(self):
        self.assertEqual(len(Board(self.image).open().blocks), 4)

    def test_a_deleted_file(self):
        board = Board(self.image)
        os.remove(FOLDER + "/0002.pin")
        self.refuse(board, "0002.pin: gone")

    def test_a_moved_file(self):
        board = Board(self.image)
        os.rename(FOLDER + "/0001.pin", PLACE + "/elsewhere")
        self.refuse(board, "0001.pin: gone")
        # littlefs moves the entry, not the block
        os.rename(PLACE + "/elsewhere", FOLDER + "/0001.pin")
        self.assertEqual(len(board.open().blocks), 4)

    def test_two_files_that_changed_places(self):
        board = Board(self.image)
        for old, new in (("0000.pin", "x"), ("0003.pin", "0000.pin"), ("x", "0003.pin")):
            os.rename(FOLDER + "/" + old, FOLDER + "/" + new)
        # were they made in different seconds, their times tell first
        told = "000[03].pin: (is not in its block|was written)"
        self.refuse_block(board, 3, told)
        self.refuse_erase(board, 3, told)

    def test_a_file_put_back_from_a_copy(self):
        board = Board(self.image)
        content = read(FOLDER + "/0003.pin")
        os.remove(FOLDER + "/0003.pin")
        write(FOLDER + "/0003.pin", content)
        self.refuse_block(board, 3, "0003.pin: was written or restored")
        self.refuse_erase(board, 3, "0003.pin: was written or restored")

    def test_the_newest_put_back_and_its_block_used_since(self):
        """The sector before looks like the newest then: no message may get a number that was given
        already.
        """
        board = Board(self.image)
        device = board.open()
        newest = device.newest()
        path = FOLDER + "/%04d.pin" % newest
        write(path, read(path))
        board.raw.forbidden = ()
        board.raw.ioctl(6, device.blocks[newest])
        self.assertEqual(device.newest(), newest - 1)
        self.refuse(board, "%04d.pin: was written or restored" % newest)

    def test_a_copy_renamed_over_the_file(self):
        board = Board(self.image)
        write(FOLDER + "/copy", read(FOLDER + "/0000.pin"))
        os.rename(FOLDER + "/copy", FOLDER + "/0000.pin")
        self.refuse_block(board, 0, "0000.pin: was written or restored")
        self.refuse_erase(board, 0, "0000.pin: was written or restored")

    def test_a_copy_elsewhere_does_no_harm(self):
        board = Board(self.image)
        write(PLACE + "/copy", read(FOLDER + "/0000.pin"))
        self.assertEqual(len(board.open().blocks), 4)

    def test_a_file_that_was_written_to(self):
        for mode, data in (("ab", b"more"), ("wb", b"")):
            board = Board(self.image)
            with open(FOLDER + "/0001.pin", mode) as file:
                file.write(data)
            self.refuse(board, "0001.pin: was written or restored")
        board = Board(self.image)
        newest = board.open().newest()
        for number in (newest, (newest + 1) % 4, 3):
            board = Board(self.image)
            with open(FOLDER + "/%04d.pin" % number, "r+b") as file:
                file.write(b"hello")
            if number != 3:
                self.refuse(board, "%04d.pin: was written or restored" % number)
            else:
                self.refuse_block(board, number, "%04d.pin: was written or restored" % number)

    def test_the_whole_folder_restored_from_a_backup(self):
        board = Board(self.image)
        backup = [(name, read(FOLDER + "/" + name)) for name in os.listdir(FOLDER)]
        for name, _ in backup:
            os.remove(FOLDER + "/" + name)
        for name, content in backup:
            write(FOLDER + "/" + name, content)
        self.refuse(board, "was written or restored")

    def test_a_filesystem_made_anew(self):
        board = Board(self.image)
        leave()
        vfs.VfsLfs2.mkfs(board.drive, progsize=256)
        vfs.mount(vfs.VfsLfs2(board.drive, progsize=256), PLACE)
        self.refuse(board, "map: not there")
        with self.assertRaises(pinned.NotPinned):
            board.open()

    def test_a_filesystem_made_anew_with_the_files_restored(self):
        board = Board(self.image)
        backup = [(name, read(FOLDER + "/" + name)) for name in os.listdir(FOLDER)]
        leave()
        vfs.VfsLfs2.mkfs(board.drive, progsize=256)
        vfs.mount(vfs.VfsLfs2(board.drive, progsize=256), PLACE)
        os.mkdir(FOLDER)
        for name, content in backup:
            write(FOLDER + "/" + name, content)
        self.refuse(board, "was written or restored")

    def test_the_flash_of_another_board(self):
        self.refuse(Board(self.image), "map: of another board", b"board-2")

    def test_a_map_of_a_device_of_another_size(self):
        Board(self.image)
        content = read(FOLDER + "/map")
        board = Board(blocks=BLOCKS + 4)
        os.mkdir(FOLDER)
        write(FOLDER + "/map", content)
        self.refuse(board, "map: of another board")

    def test_a_map_that_is_not_whole(self):
        for change in (b"", b"x", bytes(80)):
            board = Board(self.image)
            write(FOLDER + "/map", change)
            self.refuse(board, "map: not a map")
        for at in (5, 9, 13, 20, 30):
            board = Board(self.image)
            content = bytearray(read(FOLDER + "/map"))
            content[at] ^= 1
            write(FOLDER + "/map", content)
            self.refuse(board, "map: not a map")

    def test_a_lost_map(self):
        board = Board(self.image)
        os.remove(FOLDER + "/map")
        self.refuse(board, "map: gone")

    def test_an_old_map_put_back_after_growing(self):
        board = Board(self.image)
        old = read(FOLDER + "/map")
        pinning.grow(board.open(), 2, b"87654321")
        write(FOLDER + "/map", old)
        self.refuse(board, "0004.pin: not in the map")

    def test_a_block_that_differs_with_the_mtime_unchanged(self):
        """The clock stood still, or was set back: the first page tells, and in the newest sector
        every byte.
        """
        board = Board(self.image)
        device = board.open()
        for index, offset in ((0, 40), (device.newest(), 40), (device.newest(), 4095)):
            number, block, _ = device.entries[index]
            raw = Differs(board.raw, block, offset)
            with self.assertRaisesRegex(
                pinned.PinnedError, "%04d.pin: is not in its block" % number
            ):
                pinned.open_blocks(raw, FOLDER, BOARD).own(index)


class TestLimit(Case):
    def test_put_back_within_the_second_passes_and_check_finds_it_after_the_next_append(self):
        for _ in range(30):  # a busy machine: until it is done within one second of the clock
            while time.time() % 1 > 0.2:
                time.sleep(0.01)
            board, outbox = with_messages()
            path = "%s/%04d.pin" % (FOLDER, outbox._device.newest())
            before = os.stat(path)[8]
            write(path, read(path))
            if os.stat(path)[8] == before:
                break
        outbox = mounted(board.outbox(board.open()))
        with self.assertRaisesRegex(pinned.PinnedError, "is not in its block"):
            for _ in range(2):  # mount() may have appended, to make sure of the newest message
                outbox._device.check()
                append(outbox, 60, 61)


class Differs:
    """A raw device on which one byte is not what the file shows."""

    def __init__(self, raw, block, offset):
        self.raw, self.block, self.offset = raw, block, offset

    def readblocks(self, block, buf, offset=0):
        self.raw.readblocks(block, buf, offset)
        if block == self.block and offset <= self.offset < offset + len(buf):
            buf[self.offset - offset] ^= 1

    def writeblocks(self, block, buf, offset=0):
        raise AssertionError("it only reads")

    def ioctl(self, op, arg):
        return self.raw.ioctl(op, arg)


class TestMutant(Case):
    """Without the check a restored file costs messages and files: the refusal is needed."""

    def damage(self, opener):
        board, outbox = with_messages(4, 90)
        time.sleep(1.1)
        for number in range(4):  # a restore from a backup: every file gets another block
            path = "%s/%04d.pin" % (FOLDER, number)
            write(path, read(path))
        users = range((os.statvfs(PLACE)[3] - 2) // 3)
        for number in list(users) * 2:  # its allocator goes round
            # littlefs gives the old blocks to these
            write(PLACE + "/user%d" % number, bytes([number]) * 12000)
        outbox = board.outbox(opener(board))
        lost = outbox.mount() != 0 or len(payloads(outbox)) != 90
        while outbox.append(TOPIC, b"y" * 300, 300) == 0 and outbox.next_seq < 140:
            outbox.discard_through(outbox.next_seq - 20)
        return lost or [n for n in users if read(PLACE + "/user%d" % n) != bytes([n]) * 12000]

    def test_no_check_costs_data_and_the_check_refuses(self):
        check_file = pinned._check_file
        try:
            pinned._check_file = lambda raw, folder, entry, length: None
            caught = False
            try:
                caught = bool(self.damage(Board.open))
            except Exception:  # the chip's NorRuleError: the outbox programs what is not erased
                caught = True
            self.assertTrue(caught)
        finally:
            pinned._check_file = check_file
        with self.assertRaises(pinned.PinnedError):
            self.damage(Board.open)


class TestGrow(Case):
    def test_held_messages_stay_readable_and_the_new_blocks_are_used(self):
        """With the head in each place of the ring, full or not."""
        for messages in (0, 1, 30, 31, 60, 90, 105):
            for freed in (0, messages // 2):
                with self.subTest(messages=messages, freed=freed):
                    self.grow_once(messages, freed)

    def grow_once(self, messages, freed):
        board, outbox = with_messages(5, 105)  # one is spared
        outbox.discard_through(104)
        append(outbox, 0, messages, b"y" * 90)  # the head moves on in the ring
        outbox.discard_through(outbox.oldest_seq + freed - 1)
        outbox.save_state()
        held = payloads(outbox)
        device = outbox._device
        grown = pinning.grow(device, 3, b"87654321")
        with self.assertRaises(ValueError):
            device.readblocks(0, bytearray(256), 0)
        board = board.restarted()
        self.assertEqual(board.open().blocks, grown.blocks)
        outbox = mounted(board.outbox(board.open()))
        self.assertEqual(payloads(outbox), held)
        count = 0
        while outbox.append(TOPIC, b"z" * 400, 400) == 0:
            count += 1
        self.assertTrue(count >= 3 * 9)  # 9 fit into a block, and 3 blocks came
        outbox = mounted(outbox)
        self.assertEqual(payloads(outbox)[: len(held)], held)
        self.assertEqual(len(payloads(outbox)), len(held) + count)

    def test_twice_and_round_the_ring(self):
        board, outbox = with_messages(2, 0)
        number = 0
        for size in (2, 3, 5, 6):
            if size > 2:
                outbox = mounted(
                    board.outbox(pinning.grow(outbox._device, size - outbox.blocks, b"%08d" % size))
                )
            for _ in range(200):
                append(outbox, number, number + 1, b"x" * 200)
                number += 1
                outbox.discard_through(number - 10)
            board = board.restarted()
            outbox = mounted(board.outbox(board.open()))
            self.assertEqual(outbox.blocks, size)
            self.assertEqual(
                payloads(outbox)[-9:],
                [b"%d%s" % (n, b"x" * 200) for n in range(number - 9, number)],
            )


class TestRelease(Case):
    def test_refused_while_messages_are_held(self):
        board, outbox = with_messages()
        # the last one is not mounted, so it knows nothing
        for given in (None, outbox, board.outbox(board.open())):
            with self.assertRaisesRegex(pinned.PinnedError, "messages may be held"):
                pinning.release(FOLDER, given)
        self.assertEqual(len(payloads(mounted(board.outbox(board.open())))), 60)

    def test_gives_all_blocks_back(self):
        board = Board()
        free = os.statvfs(PLACE)[3]
        outbox = board.outbox(board.create())
        outbox.mount()
        outbox.format(b"01234567")
        append(outbox, 0, 5)
        outbox.discard_through(4)
        pinning.release(FOLDER, outbox)
        self.assertEqual((os.listdir(PLACE), os.statvfs(PLACE)[3]), ([], free))
        write(PLACE + "/big", b"b" * 4096 * (free - 4))
        self.assertEqual(read(PLACE + "/big"), b"b" * 4096 * (free - 4))

    def test_forced_with_messages_and_without_a_map(self):
        board, _ = with_messages()
        write(FOLDER + "/mine.txt", b"mine")
        os.remove(FOLDER + "/map")
        pinning.release(FOLDER, force=True)
        self.assertEqual(os.listdir(FOLDER), ["mine.txt"])
        os.remove(FOLDER + "/mine.txt")
        pinning.release(FOLDER, force=True)
        self.assertEqual(os.listdir(PLACE), [])
        pinning.release(FOLDER, force=True)
        self.assertEqual(len(board.create().blocks), 4)

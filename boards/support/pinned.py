"""Outbox blocks on a stock board's own littlefs: files of exactly one block pin blocks, which are
then used raw.

A littlefs file of 4,096 bytes is one block without pointers, and littlefs never moves, checks or
rewrites a file's data. `pinning.py` makes such files, finds their blocks and lists them in a map;
open_blocks() returns the block device for `Outbox`:

    device = pinned.open_blocks(rp2.Flash(), "/outbox", machine.unique_id())

Folder:  0000.pin 0001.pin ...  the files
         map                    the blocks in ring order
         unfinished             is there while the folder is being changed
Map:     "OPIN" version:1 0 count:2 device_blocks:4 board_crc:4 |
         file:2 block:4 mtime:4 each | crc:4                      little endian

A file still owns its block when it has its size and time of last change, and its first page reads
the same through the file as raw. Files deleted, copied back or restored, a filesystem that was
recreated, another board's map: PinnedError, and nothing is written.

When: to check 64 files takes an RP2040 0.5 s, since littlefs searches the folder for each. So
open_blocks() lists names and sizes once, and checks only the file of the newest sector, all of it,
and the one after. Each other file is checked before the first program or erase of its block, or by
check_next(), which an idle program calls. Before that a read may return a block that is no longer a
file's: an outbox takes it for erased or torn, as its CRCs tell.

Limits: a file put back from a copy in the very second (of the board's clock) that the map has for
it, with no record appended since the copy, passes; on a filesystem mounted without mtime any such
file does. check() after the next append finds it. Only check() sees that somebody writes to the
drive while the outbox is in use. The drive as a USB disk is not supported. A file that was opened
for writing is refused, even if it kept its block. Knows the start of a sector header
(`sectors.py`), nothing else of the outbox. Allocates, except in read, program and erase.
"""

import os
import struct
from binascii import crc32

from micropython import const

from outpost.checksum import crc30
from outpost.memory import u32

MAP_HEAD = "<4sBBHII"
MAP_ENTRY = "<HII"

_BLOCK_BYTES = const(4096)
_FORMAT_VERSION = const(1)
_PAGE = const(256)
_BLOCK_COUNT = const(4)
_BLOCK_SIZE = const(5)
_ERASE = const(6)
_HEADER_CRC_AT = const(28)
_SEQ_MASK = const(0x3FFFFFFF)
_HALF = const(0x20000000)
_NAME = "%04d.pin"
_GONE = ": gone, and its block with it"
_RESTORED = ": was written or restored, so it has another block now"
_HEAD_BYTES = const(16)
_ENTRY_BYTES = const(10)


class PinnedError(ValueError):
    """One line: the file, and what is wrong with it. The remedy, where it names none:
    release(force=True), then create() again."""


class NotPinned(PinnedError):
    """Nothing is there, or what a power cut left of create() or release(): create() loses
    nothing."""


class PinnedBlocks:
    """Block device over the pinned blocks in ring order, from open_blocks(), create() or grow().
    Its three methods do not allocate, except to check a file before its first program or erase.

    Raises ValueError for any address outside, because rp2.Flash checks none. is_checked: each file
    was just found to own its block.
    """

    def __init__(self, raw, folder, board, entries, is_checked=True):
        self.raw = raw
        self.folder = folder
        self.board = board
        self.entries = entries  # (file number, block, mtime) each, in ring order
        self.blocks = [block for _, block, _ in entries]  # their numbers on the raw device
        self._checked = bytearray([is_checked] * len(entries))  # 1: the file owns its block
        self._next = 0  # the file that check_next() checks next

    def readblocks(self, block, buf, offset=0):
        block = self._at(block, offset, len(buf))
        return self.raw.readblocks(block, buf, offset)

    def writeblocks(self, block, buf, offset=None):
        if offset is None:
            return self._rewrite(block, buf)
        number = self._at(block, offset, len(buf))
        self.own(block)
        return self.raw.writeblocks(number, buf, offset)

    def _rewrite(self, block, buf):
        """The block protocol's call without an offset erases first."""
        self.ioctl(_ERASE, block)
        return self.writeblocks(block, buf, 0)

    def ioctl(self, op, arg):
        if op == _ERASE:
            number = self._at(arg, 0, _BLOCK_BYTES)
            self.own(arg)
            return self.raw.ioctl(_ERASE, number)
        if op == _BLOCK_COUNT:
            return len(self.blocks)
        return _BLOCK_BYTES if op == _BLOCK_SIZE else 0

    def direct(self):
        """(raw device, its number of each block): for an outbox, which checks its addresses itself.

        For reads, and for programs of a block that ioctl() erased before, or that own() checked.
        """
        return self.raw, self.blocks

    def _at(self, block, offset, length):
        if block < 0 or offset < 0 or offset + length > _BLOCK_BYTES or block >= len(self.blocks):
            raise ValueError("pinned: address outside the blocks")
        return self.blocks[block]

    def own(self, index):
        """Check the file of a block, unless that was done. Reads only. Raises PinnedError."""
        if not self._checked[index]:
            _check_file(self.raw, self.folder, self.entries[index], _PAGE)
            self._checked[index] = True

    def check_next(self):
        """Check one more file. Reads only. False when all were checked. Raises PinnedError."""
        if self._next >= len(self.blocks):
            return False
        self.own(self._next)
        self._next += 1
        return True

    def check(self):
        """Check all files, also those that were checked. Reads only. Raises PinnedError, naming the
        first that no longer owns its block."""
        for entry in self.entries:
            _check_file(self.raw, self.folder, entry, _PAGE)
        self._check_newest(self.newest())

    def check_start(self):
        """Check the file of the newest sector, every page, and the one after: if that were lost, a
        newer sector might be lost with it, and its numbers used again. No sector: check all. Reads
        only. Raises PinnedError."""
        newest = self.newest()
        if newest < 0:
            return self.check()
        self._check_newest(newest)
        self.own((newest + 1) % len(self.blocks))

    def _check_newest(self, newest):
        if newest >= 0:
            _check_file(self.raw, self.folder, self.entries[newest], _BLOCK_BYTES)
            self._checked[newest] = True

    def newest(self):
        """Index of the outbox's head: the valid sector header with the greatest number. -1:
        none."""
        found, last, buf = -1, 0, bytearray(_HEADER_CRC_AT + 4)
        for index in range(len(self.blocks)):
            self.readblocks(index, buf, 0)
            if not _is_header(buf):
                continue
            if buf[2] > _FORMAT_VERSION:
                newer = ": written by a newer format version; update the firmware"
                raise PinnedError(self.folder + newer)
            if found < 0 or (u32(buf, 4) - last) & _SEQ_MASK < _HALF:
                found, last = index, u32(buf, 4)
        return found


def _is_header(buf):
    if buf[0] != 0x4F or buf[1] != 0x42 or buf[_HEADER_CRC_AT + 3] > 0x3F:
        return False
    return u32(buf, _HEADER_CRC_AT) == crc30(0, buf, 0, _HEADER_CRC_AT)


def open_blocks(raw, folder, board=b"", at_once=False):
    """The device that create() or grow() left. raw: the block device under the littlefs. board: as
    for create().

    at_once: check all files now. Raises NotPinned, PinnedError; reads only.
    """
    sizes = sizes_in(folder)
    if "map" not in sizes:
        check_leftovers(folder, sizes)
        raise NotPinned(folder + "/map: not there; create() makes it")
    device = PinnedBlocks(raw, folder, board, _load_map(raw, folder, board), False)
    known = {number for number, _, _ in device.entries}
    for number in known:
        _check_size(path_of(folder, number), sizes.get(_NAME % number, -1))
    for number in numbers_in(sizes):
        if number not in known and "unfinished" not in sizes:
            raise PinnedError(path_of(folder, number) + ": not in the map, which is an old copy")
    if at_once:
        device.check()
    else:
        device.check_start()
    return device


def path_of(folder, number):
    return folder + "/" + _NAME % number


def names_in(folder):
    return os.listdir(folder) if exists(folder) else []


def sizes_in(folder):
    """{name: size}: one look through the folder for all."""
    return {entry[0]: entry[3] for entry in os.ilistdir(folder)} if exists(folder) else {}


def numbers_in(names):
    return [int(name[:4]) for name in names if name[4:] == ".pin" and name[:4].isdigit()]


def exists(path):
    try:
        os.stat(path)
        return True
    except OSError:
        return False


def mtime_of(path):
    return int(os.stat(path)[8]) & 0xFFFFFFFF


def check_leftovers(folder, names):
    """Files without a map are what a power cut left only if `unfinished` is beside them."""
    if "unfinished" not in names and numbers_in(names):
        lost = "/map: gone, and its files may hold messages; release(force=True) discards them"
        raise PinnedError(folder + lost)


def compare(raw, path, block, length):
    """The file and the raw block must read the same. It is opened again, since an open file has its
    own cache."""
    through, direct = bytearray(_PAGE), bytearray(_PAGE)
    with open(path, "rb") as file:
        for at in range(0, length, _PAGE):
            file.readinto(through)
            raw.readblocks(block, direct, at)
            if through != direct:
                raise PinnedError(path + ": is not in its block any more")


def _check_file(raw, folder, entry, length):
    """One stat and one open: each makes littlefs search the folder."""
    number, block, mtime = entry
    path = path_of(folder, number)
    try:
        status = os.stat(path)
    except OSError:
        raise PinnedError(path + _GONE)
    _check_size(path, status[6])
    if int(status[8]) & 0xFFFFFFFF != mtime:
        raise PinnedError(path + _RESTORED)
    compare(raw, path, block, length)


def _check_size(path, size):
    """size: -1 when the file is not there."""
    if size != _BLOCK_BYTES:
        raise PinnedError(path + (_GONE if size < 0 else _RESTORED))


def _load_map(raw, folder, board):
    """[(file number, block, mtime)] in ring order."""
    path = folder + "/map"
    with open(path, "rb") as file:
        data = file.read()
    end = len(data) - 4
    is_whole = end >= _HEAD_BYTES and data[end:] == struct.pack("<I", crc32(data[:end]))
    if not is_whole or data[:5] != b"OPIN\x01":
        raise PinnedError(path + ": not a map of this version")
    _, _, _, count, device_blocks, board_crc = struct.unpack_from(MAP_HEAD, data, 0)
    is_of_device = board_crc == crc32(board) and device_blocks == raw.ioctl(_BLOCK_COUNT, 0)
    if not is_of_device or end != _HEAD_BYTES + count * _ENTRY_BYTES:
        raise PinnedError(path + ": of another board or device")
    return [struct.unpack_from(MAP_ENTRY, data, at) for at in range(_HEAD_BYTES, end, _ENTRY_BYTES)]

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

At a start: to check 64 files takes an RP2040 0.5 s, since littlefs searches the folder for each. So
open_blocks() lists names and sizes once, and checks only the file of the newest sector, all of it,
and the one after. Each other file is checked before the first program or erase of its block.

While the program runs: an idle program calls watch() at a steady pace. Each fourth call checks one
of all files in turn; the other three check those of the blocks that are about to be written. A file
that is lost costs its block: from then on each program and erase of it is refused (OSError), so
that it cannot damage the file that littlefs may have put there. The other blocks stay in use, and
reads go on: a block that is no longer a file's is erased or torn to an outbox, as its CRCs tell.
The next start refuses.

Limits: what happens to a file between two calls of watch() that check it is not seen. A file put
back from a copy in the very second (of the board's clock) that the map has for it, with no record
appended since the copy, passes; on a filesystem mounted without mtime any such file does. A check
after the next append finds it. The drive as a USB disk is not supported. A file that was opened for
writing is refused, even if it kept its block. Knows the start of a sector header (`sectors.py`),
nothing else of the outbox. Allocates, except in read, program and erase.
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
_EIO = const(5)
# What is known of a file
_UNCHECKED = const(0)
_OWNS = const(1)
_LOST = const(2)


class PinnedError(ValueError):
    """One line: the file, and what is wrong with it. The remedy, where it names none:
    `outpost outbox new`, which is release(force=True) and start_new()."""


class NotPinned(PinnedError):
    """Nothing is there, or what a power cut left of create() or release(): create() loses
    nothing."""


class _Direct:
    """What direct() hands out: the raw device's own methods, until a program has to be refused."""

    def __init__(self, raw):
        self.readblocks, self.writeblocks = raw.readblocks, raw.writeblocks


class PinnedBlocks:
    """Block device over the pinned blocks in ring order, from open_blocks(), create() or grow().
    Its three methods do not allocate, except to check a file before its first program or erase.

    Raises ValueError for any address outside, because rp2.Flash checks none; OSError for a program
    or erase of a block whose file is lost. is_checked: each file was just found to own its block.

    lost: files found lost since the start. fault: what is wrong with the last of them.
    """

    def __init__(self, raw, folder, board, entries, is_checked=True):
        self.raw = raw
        self.folder = folder
        self.board = board
        self.entries = entries  # (file number, block, mtime) each, in ring order
        self.blocks = [block for _, block, _ in entries]  # their numbers on the raw device
        self.lost = 0
        self.fault = ""
        self._known = bytearray([is_checked] * len(entries))  # of each file: _UNCHECKED ...
        self._direct = _Direct(raw)
        # The ring's two blocks that were erased last: one is being filled, or both are.
        self._erased = self._erased_before = 0
        self._turn = self._checked = 0  # of watch(): its calls, and those for all in turn

    def readblocks(self, block, buf, offset=0):
        block = self._at(block, offset, len(buf))
        return self.raw.readblocks(block, buf, offset)

    def writeblocks(self, block, buf, offset=None):
        if offset is None:
            return self._rewrite(block, buf)
        number = self._at(block, offset, len(buf))
        self._refuse_lost(block)
        return self.raw.writeblocks(number, buf, offset)

    def _rewrite(self, block, buf):
        """The block protocol's call without an offset erases first."""
        self.ioctl(_ERASE, block)
        return self.writeblocks(block, buf, 0)

    def ioctl(self, op, arg):
        if op == _ERASE:
            number = self._at(arg, 0, _BLOCK_BYTES)
            self._refuse_lost(arg)
            if arg != self._erased:
                self._erased_before = self._erased
                self._erased = arg
            return self.raw.ioctl(_ERASE, number)
        if op == _BLOCK_COUNT:
            return len(self.blocks)
        return _BLOCK_BYTES if op == _BLOCK_SIZE else 0

    def direct(self):
        """(raw device, its number of each block): for an outbox, which checks its addresses itself.

        For reads, and for programs of a block that ioctl() erased before, or that own() checked.
        """
        return self._direct, self.blocks

    def _program_unless_lost(self, number, buf, offset):
        """In the place of the raw device's, from the first file on that is lost."""
        if self._known[self.blocks.index(number)] == _LOST:
            raise OSError(_EIO)
        return self.raw.writeblocks(number, buf, offset)

    def _at(self, block, offset, length):
        if block < 0 or offset < 0 or offset + length > _BLOCK_BYTES or block >= len(self.blocks):
            raise ValueError("pinned: address outside the blocks")
        return self.blocks[block]

    def own(self, index):
        """Check the file of a block, unless it passed before. Reads only. Raises PinnedError."""
        if self._known[index] != _OWNS:
            _check_file(self.raw, self.folder, self.entries[index], _PAGE)
            self._known[index] = _OWNS

    def _refuse_lost(self, index):
        """Before a program or an erase. Raises OSError."""
        if self._known[index] == _UNCHECKED:
            self._check_now(index)
        if self._known[index] == _LOST:
            raise OSError(_EIO)

    def _check_now(self, index):
        """Check the file of a block, also one that was checked before. Reads only."""
        try:
            _check_file(self.raw, self.folder, self.entries[index], _PAGE)
            self._known[index] = _OWNS
        except PinnedError as error:
            self._known[index] = _LOST
            self.lost += 1
            self.fault = str(error)
            self._direct.writeblocks = self._program_unless_lost

    def watch(self):
        """Check one file. Reads only. True until each file was checked once: call again soon; then
        at a steady pace.

        In turn: those of the two blocks erased last, of the next one in the ring, of all blocks.
        """
        self._turn = (self._turn + 1) & 3
        index = self._erased
        if self._turn == 0 or self._checked < len(self.blocks):
            self._checked += 1
            index = self._checked
        elif self._turn == 1:
            index = self._erased_before
        elif self._turn == 2:
            index += 1
        index %= len(self.blocks)
        if self._known[index] != _LOST:
            self._check_now(index)
        return self._checked < len(self.blocks)

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
            self._known[newest] = _OWNS
            self._erased = self._erased_before = newest

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
    device = PinnedBlocks(raw, folder, board, load_map(raw, folder, board), False)
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


def load_map(raw, folder, board):
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

"""Outbox blocks in a stock board's own littlefs: files of exactly one block each pin blocks, which
are then used raw.

A littlefs file of 4,096 bytes is one block without pointers, and littlefs never moves, checks or
rewrites a file's data. `pinning.py` creates such files, finds their blocks and lists them in a map;
open_blocks() returns the block device for `Outbox`:

    device = pinned.open_blocks(rp2.Flash(), "/outbox", machine.unique_id())

Folder:  0000.pin 0001.pin ...  the files
         map                    the blocks in ring order
         unfinished             exists while the folder is being changed
Map:     "OPIN" version:1 0 count:2 device_blocks:4 board_crc:4 |
         file:2 block:4 mtime:4 each | crc:4                      little endian

A file still owns its block if its size and modification time are unchanged, and its first page is
the same through the file as raw. If files were deleted, copied back or restored, the filesystem was
recreated, or the map is another board's: PinnedError, and nothing is written.

At a start: checking 64 files takes an RP2040 0.5 s, because littlefs searches the folder for each.
So open_blocks() lists names and sizes once, and checks only the file of the newest sector, in full,
and the one after it. Every other file is checked before the first program or erase of its block.

While the program runs: an idle program calls watch() at a steady pace. Every fourth call checks one
of all files in turn; the other three check those of the blocks that will be written next. A file
that is lost costs its block: from then on each program and erase of it is refused (OSError), so
that it cannot damage the file that littlefs may have put there. The other blocks stay in use, and
reads continue: to an outbox, the CRCs of a lost block show a block that is erased or torn. The next
start refuses.

Limits: a change to a file is not seen until watch() checks it. A file restored from a copy within
the same second (of the board's clock) that the map has for it, with no record appended since the
copy, passes; on a filesystem mounted without mtime, any such file does. A check after the next
append finds it. Exposing the drive as a USB disk is not supported. A file that was opened for
writing is refused, even if it kept its block. Knows the start of a sector header (`flash/ring.py`),
and nothing else about the outbox. Allocates, except in read, program and erase.
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
_FORMAT_VERSION = const(2)
_PAGE = const(256)
_BLOCK_COUNT = const(4)
_BLOCK_SIZE = const(5)
_ERASE = const(6)
_HEADER_CRC_AT = const(28)
_SEQ_MASK = const(0x3FFFFFFF)
_HALF = const(0x20000000)
_NAME = const("%04d.pin")
_GONE = const(": gone, and its block with it")
_RESTORED = const(": was written or restored, so it has another block now")
_HEAD_BYTES = const(16)
_ENTRY_BYTES = const(10)
_EIO = const(5)
# What is known of a file
_UNCHECKED = const(0)
_OWNS = const(1)
_LOST = const(2)


class PinnedError(ValueError):
    """One line: the file, and its fault. If it names no remedy, the remedy is `outpost outbox new`:
    release(force=True) and start_new()."""


class NotPinned(PinnedError):
    """There are no files, or those that a power cut left of create() or release(). create() then
    loses nothing."""


class _Guard:
    """The raw device, for an outbox that has lost a block."""

    def __init__(self, pins):
        self._pins, self.readblocks = pins, pins.raw.readblocks

    def writeblocks(self, number, buf, offset):
        self._pins.refuse_lost(self._pins.blocks.index(number))
        return self._pins.raw.writeblocks(number, buf, offset)


class PinnedBlocks:
    """Block device over the pinned blocks in ring order, from open_blocks(), create() or grow().
    Its three methods do not allocate, except to check a file before its first program or erase.

    Raises ValueError for any address outside, because rp2.Flash checks none; OSError for a program
    or erase of a block whose file is lost. is_checked: each file was just found to own its block.

    lost: how many files have been found lost since the start. fault: the fault of the last one.
    """

    def __init__(self, raw, folder, board, entries, is_checked=True):
        self.raw = raw
        self.folder = folder
        self.board = board
        # In bytes, as in the map: tuples of them take seven times as much heap
        self._map = b"".join([struct.pack(MAP_ENTRY, *entry) for entry in entries])
        self.blocks = [block for _, block, _ in entries]  # block numbers on the raw device
        self.lost = 0
        self.fault = ""
        self._known = bytearray([is_checked] * len(entries))  # of each file: _UNCHECKED ...
        # The two blocks of the ring that were erased last: one or both are being filled.
        self._erased = self._erased_before = 0
        self._turn = self._checked = 0  # of watch(): its calls, and those that check all in turn

    @property
    def entries(self):
        """[(file number, block, mtime)] in ring order."""
        return [self.entry(index) for index in range(len(self.blocks))]

    def entry(self, index):
        return struct.unpack_from(MAP_ENTRY, self._map, index * _ENTRY_BYTES)

    def readblocks(self, block, buf, offset=0):
        block = self._at(block, offset, len(buf))
        return self.raw.readblocks(block, buf, offset)

    def writeblocks(self, block, buf, offset=None):
        if offset is None:
            return self._rewrite(block, buf)
        number = self._at(block, offset, len(buf))
        self.refuse_lost(block)
        return self.raw.writeblocks(number, buf, offset)

    def _rewrite(self, block, buf):
        """The block protocol's call without an offset erases first."""
        self.ioctl(_ERASE, block)
        return self.writeblocks(block, buf, 0)

    def ioctl(self, op, arg):
        if op == _ERASE:
            number = self._at(arg, 0, _BLOCK_BYTES)
            self.refuse_lost(arg)
            if arg != self._erased:
                self._erased_before = self._erased
                self._erased = arg
            return self.raw.ioctl(_ERASE, number)
        if op == _BLOCK_COUNT:
            return len(self.blocks)
        return _BLOCK_BYTES if op == _BLOCK_SIZE else 0

    def direct(self):
        """(raw device, its number of each block): for an outbox, which checks its addresses itself.

        For reads, and for programs of a block that ioctl() has erased or own() has checked.
        """
        return self.raw, self.blocks

    def guard(self, outbox):
        """Stop an outbox that uses direct() from programming a lost block: call this after watch()
        has found one. Until then the outbox uses the raw device directly: an object between them
        costs 500 cycles a record on an RP2040 (`host_tests/rigs/rp2040/cycles.py`)."""
        if getattr(outbox, "_raw", None) is self.raw:  # otherwise it programs through this object
            outbox._raw = _Guard(self)

    def _at(self, block, offset, length):
        if block < 0 or offset < 0 or offset + length > _BLOCK_BYTES or block >= len(self.blocks):
            raise ValueError("pinned: address outside the blocks")
        return self.blocks[block]

    def own(self, index):
        """Check the file of a block unless it has passed. Reads only. Raises PinnedError."""
        if self._known[index] != _OWNS:
            _check_file(self.raw, self.folder, self.entry(index), _PAGE)
            self._known[index] = _OWNS

    def refuse_lost(self, index):
        """Before a program or an erase. Raises OSError."""
        if self._known[index] == _UNCHECKED:
            self._check_now(index)
        if self._known[index] == _LOST:
            raise OSError(_EIO)

    def _check_now(self, index):
        """Check the file of a block, even if it has been checked. Reads only."""
        try:
            _check_file(self.raw, self.folder, self.entry(index), _PAGE)
            self._known[index] = _OWNS
        except PinnedError as error:
            self._known[index] = _LOST
            self.lost += 1
            self.fault = str(error)

    def watch(self):
        """Check one file. Reads only. True until every file has been checked once: call again soon;
        afterwards at a steady pace.

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
        """Check all files, even those already checked. Reads only. Raises PinnedError, which names
        the first that no longer owns its block."""
        for index in range(len(self.blocks)):
            _check_file(self.raw, self.folder, self.entry(index), _PAGE)
        self._check_newest(self.newest())

    def check_start(self):
        """Check every page of the newest sector's file, and the file after it: if that were lost, a
        newer sector could be lost with it, and its numbers be reused. Without a sector, check all.
        Reads only. Raises PinnedError."""
        newest = self.newest()
        if newest < 0:
            return self.check()
        self._check_newest(newest)
        self.own((newest + 1) % len(self.blocks))

    def _check_newest(self, newest):
        if newest >= 0:
            _check_file(self.raw, self.folder, self.entry(newest), _BLOCK_BYTES)
            self._known[newest] = _OWNS
            self._erased = self._erased_before = newest

    def newest(self):
        """Index of the outbox's head: the valid sector header with the highest number. -1:
        none."""
        found, last, buf = -1, 0, bytearray(_HEADER_CRC_AT + 4)
        for index in range(len(self.blocks)):
            self.readblocks(index, buf, 0)
            if not _is_header(buf):
                continue
            if buf[2] > _FORMAT_VERSION:
                newer = ": of a newer format; update the firmware"
                raise PinnedError(self.folder + newer)
            if found < 0 or (u32(buf, 4) - last) & _SEQ_MASK < _HALF:
                found, last = index, u32(buf, 4)
        return found


def _is_header(buf):
    if buf[0] != 0x4F or buf[1] != 0x42 or buf[_HEADER_CRC_AT + 3] > 0x3F:
        return False
    return u32(buf, _HEADER_CRC_AT) == crc30(0, buf, 0, _HEADER_CRC_AT)


def open_blocks(raw, folder, board=b"", at_once=False):
    """The device that create() or grow() made. raw: the block device below littlefs. board: as for
    create().

    at_once: check all files now. Raises NotPinned, PinnedError; reads only.
    """
    sizes = sizes_in(folder)
    if "map" not in sizes:
        check_leftovers(folder, sizes)
        raise NotPinned(folder + "/map: not there; create() makes it")
    device = PinnedBlocks(raw, folder, board, load_map(raw, folder, board), False)
    known = {number for number, _, _ in device.entries}
    for number in known:
        size = sizes.get(_NAME % number, -1)
        if size != _BLOCK_BYTES:  # 20 ms of an RP2040 for the paths of 64
            _check_size(path_of(folder, number), size)
    if len(sizes) > len(known) + 1 and "unfinished" not in sizes:  # more than they and the map
        for number in numbers_in(sizes):
            if number not in known:
                raise PinnedError(
                    path_of(folder, number) + ": not in the map, which is an old copy"
                )
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
    """{name: size} of all files, in one pass over the folder."""
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
    """A power cut explains files without a map only if `unfinished` exists, too."""
    if "unfinished" not in names and numbers_in(names):
        lost = "/map: gone, and its files may hold messages; release(force=True) discards them"
        raise PinnedError(folder + lost)


def compare(raw, path, block, length):
    """The file and the raw block must have the same contents. The file is opened again, because an
    open file has its own cache."""
    through, direct = bytearray(_PAGE), bytearray(_PAGE)
    with open(path, "rb") as file:
        for at in range(0, length, _PAGE):
            file.readinto(through)
            raw.readblocks(block, direct, at)
            if through != direct:
                raise PinnedError(path + ": is not in its block any more")


def _check_file(raw, folder, entry, length):
    """One stat and one open, because each makes littlefs search the folder."""
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
    """size: -1 if the file does not exist."""
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

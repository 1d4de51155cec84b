"""Outbox blocks on a stock board's own littlefs: files of exactly one block pin blocks, which are then used raw.

A littlefs file of 4,096 bytes is one block without pointers, and littlefs never moves, checks or rewrites a file's data. create()
writes such files, finds their blocks by a marker and notes them in a map; open_blocks() gives the block device for `Outbox`:

    device = pinned.open_blocks(rp2.Flash(), "/outbox", machine.unique_id())

Folder:  0000.pin 0001.pin ...  the files   |   map  the blocks in ring order   |   unfinished  while the folder is being changed
Map:     "OPIN" version:1 0 count:2 device_blocks:4 board_crc:4 | file:2 block:4 mtime:4 each | crc:4        (little endian)

Before use each file is checked to own its block still: size, time of last change, first page through the file = raw, the newest
sector wholly. Files deleted, copied back, restored, a filesystem made anew, another board's map: PinnedError, nothing written.
Each change of the folder ends with the rename of the map, so that a power cut leaves the state before or after it, or
files without a map beside `unfinished`: create() begins anew there.

Limits: a file put back from a copy in the very second (of the board's clock) that the map has for it, with no record appended
since the copy, passes; on a filesystem mounted without mtime so does any such file. check() after the next append finds it.
Whoever writes to the drive while the outbox is in use is seen by check() only. The drive as a USB disk is out of bounds.
Knows the head of a sector (`sectors.py`), nothing else of the outbox. Takes heap, but for read, program and erase.
"""

import os
import struct
from binascii import crc32

from micropython import const

from outpost.sectors import FORMAT_VERSION, u32

try:
    from outpost.viper import crc30
except (ImportError, AttributeError, SyntaxError, ValueError):  # as in sectors.py
    from outpost.bytecode import crc30

_BLOCK_BYTES = const(4096)
_PAGE = const(256)
_BLOCK_COUNT = const(4)
_BLOCK_SIZE = const(5)
_ERASE = const(6)
_HEADER_CRC_AT = const(28)
_SEQ_MASK = const(0x3FFFFFFF)
_HALF = const(0x20000000)
_MOST_BLOCKS = const(4096)
_SPARE_BLOCKS = const(4)  # littlefs needs some to change a folder
_HEAD = "<4sBBHII"
_HEAD_BYTES = const(16)
_ENTRY = "<HII"
_ENTRY_BYTES = const(10)


class PinnedError(ValueError):
    """One line: the file, what is wrong with it, what to do."""


class NotPinned(PinnedError):
    """Nothing is there, or what a power cut left of create() or release(): create() may be called without loss."""


class PinnedBlocks:
    """Block device over the pinned blocks in ring order, from open_blocks(), create() or grow(). No heap in its three methods.

    Raises ValueError for any address outside, because rp2.Flash checks none. blocks: the numbers on the raw device.
    """

    def __init__(self, raw, folder, board, entries):
        self._raw = raw
        self.folder = folder
        self.board = board
        self.entries = entries
        self.blocks = [block for _, block, _ in entries]

    def readblocks(self, block, buf, offset=0):
        block = self._at(block, offset, len(buf))
        return self._raw.readblocks(block, buf, offset)

    def writeblocks(self, block, buf, offset=None):
        if offset is None:
            return self._rewrite(block, buf)
        block = self._at(block, offset, len(buf))
        return self._raw.writeblocks(block, buf, offset)

    def _rewrite(self, block, buf):
        """The protocol's call without offset erases first."""
        self.ioctl(_ERASE, block)
        return self.writeblocks(block, buf, 0)

    def ioctl(self, op, arg):
        if op == _ERASE:
            arg = self._at(arg, 0, _BLOCK_BYTES)
            return self._raw.ioctl(_ERASE, arg)
        if op == _BLOCK_COUNT:
            return len(self.blocks)
        return _BLOCK_BYTES if op == _BLOCK_SIZE else 0

    def _at(self, block, offset, length):
        if block < 0 or offset < 0 or length < 0 or offset + length > _BLOCK_BYTES or block >= len(self.blocks):
            raise ValueError("pinned: address outside the blocks")
        return self.blocks[block]

    def check(self):
        """Reads only. Raises PinnedError with the name of the first file that does not own its block any more."""
        for entry in self.entries:
            _check_file(self._raw, self.folder, entry)
        newest = self.newest()
        if newest >= 0:
            number, block, _ = self.entries[newest]
            _compare(self._raw, _path(self.folder, number), block, _BLOCK_BYTES)

    def newest(self):
        """Index of the outbox's head: the valid sector header with the greatest number. -1: none."""
        found, last, buf = -1, 0, bytearray(_HEADER_CRC_AT + 4)
        for index in range(len(self.blocks)):
            self.readblocks(index, buf, 0)
            if not _is_header(buf):
                continue
            if buf[2] > FORMAT_VERSION:
                raise PinnedError(self.folder + ": written by a newer format version; update the firmware")
            if found < 0 or (u32(buf, 4) - last) & _SEQ_MASK < _HALF:
                found, last = index, u32(buf, 4)
        return found


def _is_header(buf):
    return buf[0] == 0x4F and buf[1] == 0x42 and u32(buf, _HEADER_CRC_AT) == crc30(buf, 0, _HEADER_CRC_AT, 0)


# --- What users call ---


def create(raw, folder, count, random_id, board=b""):
    """Pin `count` blocks (2 to 4096) and give their device, erased: Outbox.mount() says BLANK. May be repeated after a power cut.

    raw: the block device under the mounted littlefs. random_id: 8 random bytes, new at each call. board: what tells this
    board from others (machine.unique_id()). Raises PinnedError, OSError of the filesystem.
    """
    if not 2 <= count <= _MOST_BLOCKS or raw.ioctl(_BLOCK_SIZE, 0) != _BLOCK_BYTES:
        raise PinnedError("pinned: 2 to 4096 blocks of 4,096 bytes on a device with such blocks")
    names = _names(folder)
    if "map" in names:
        raise PinnedError(folder + "/map: is there already; open_blocks() it, or release() it first")
    _check_leftovers(folder, names)
    if not _exists(folder):
        os.mkdir(folder)
    _begin(folder, names, [])
    return _extend(PinnedBlocks(raw, folder, board, []), range(count), random_id, 0)


def open_blocks(raw, folder, board=b""):
    """The device that create() or grow() left. Raises NotPinned, PinnedError; reads only."""
    names = _names(folder)
    if "map" not in names:
        _check_leftovers(folder, names)
        raise NotPinned(folder + "/map: not there; create() makes it")
    device = PinnedBlocks(raw, folder, board, _load_map(raw, folder, board))
    known = [number for number, _, _ in device.entries]
    for number in _numbers(names):
        if number not in known and "unfinished" not in names:
            raise PinnedError(_path(folder, number) + ": not in the map, which is an old copy; nothing can be used safely")
    device.check()
    return device


def grow(device, count, random_id):
    """Pin `count` blocks more, and give the new device. The old one refuses all from now on: make and mount a new Outbox.

    They come into the ring right behind the head, because the outbox looks for older sectors in the blocks before it: every held
    sector keeps the neighbour that it has. Power cut: the old ring or the new one. Raises as create().
    """
    device.check()
    if count < 1 or len(device.entries) + count > _MOST_BLOCKS:
        raise PinnedError(device.folder + ": can grow to 4096 blocks")
    behind = device.newest() + 1
    known = [number for number, _, _ in device.entries]
    _begin(device.folder, _names(device.folder), known)
    first = max(known) + 1
    grown = _extend(device, range(first, first + count), random_id, behind)
    device.blocks, device.entries = [], []
    return grown


def release(folder, outbox=None, force=False):
    """Give the blocks back to littlefs. Refuses while the mounted outbox holds messages, or none is given, unless force.

    After a power cut inside: create(), or release() with force, finish it. Raises PinnedError.
    """
    if not force and (outbox is None or not outbox.stream or outbox.next_seq != outbox.oldest_seq):
        raise PinnedError(folder + ": messages may be held; drain a mounted outbox and give it, or force=True")
    if "map" in _names(folder):
        os.rename(folder + "/map", folder + "/unfinished")  # from here on create() may begin anew
    for number in _numbers(_names(folder)):
        os.remove(_path(folder, number))
    for name in ("map.new", "unfinished"):
        if name in _names(folder):
            os.remove(folder + "/" + name)
    if _exists(folder) and not os.listdir(folder):
        os.rmdir(folder)


# --- Files ---


def _path(folder, number):
    return "%s/%04d.pin" % (folder, number)


def _exists(path):
    try:
        os.stat(path)
        return True
    except OSError:
        return False


def _names(folder):
    return os.listdir(folder) if _exists(folder) else []


def _numbers(names):
    return [int(name[:4]) for name in names if name[4:] == ".pin" and name[:4].isdigit()]


def _check_leftovers(folder, names):
    """Files without a map are what a power cut left only if `unfinished` stands beside them."""
    if "unfinished" not in names and _numbers(names):
        raise PinnedError(folder + "/map: gone, and its files may hold messages; release(force=True) gives them up")


def _begin(folder, names, known):
    """Say that the folder is being changed, and clear away what an earlier attempt left."""
    with open(folder + "/unfinished", "wb"):
        pass
    for number in _numbers(names):
        if number not in known:
            os.remove(_path(folder, number))


def _extend(device, numbers, random_id, behind):
    """New files, their blocks found and erased, in the ring from index `behind` on; then the map."""
    raw, folder = device._raw, device.folder
    free = os.statvfs(folder)[3]
    if free < len(numbers) + _SPARE_BLOCKS:
        raise PinnedError("%s: %d blocks are free, %d are needed" % (folder, free, len(numbers) + _SPARE_BLOCKS))
    marks = {}
    for number in numbers:
        marks[_write_marked(_path(folder, number), random_id, number)] = number
    found = _scan(raw, folder, marks)
    for number in numbers:
        _compare(raw, _path(folder, number), found[number], _BLOCK_BYTES)
    for number in numbers:
        raw.ioctl(_ERASE, found[number])
    new = [(number, found[number], _mtime(_path(folder, number))) for number in numbers]
    entries = device.entries[:behind] + new + device.entries[behind:]
    _save_map(raw, folder, device.board, entries)
    return PinnedBlocks(raw, folder, device.board, entries)


def _write_marked(path, random_id, number):
    mark = (b"%04d" % number + random_id + b" outpost pinned block           ")[:32]
    blank = b"\xff" * (_PAGE - len(mark))
    with open(path, "wb") as file:
        for _ in range(_BLOCK_BYTES // _PAGE):
            file.write(mark)
            file.write(blank)
    return mark


def _scan(raw, folder, marks):
    """{file number: block} from a look at each block of the device."""
    found, buf = {}, bytearray(32)
    for block in range(raw.ioctl(_BLOCK_COUNT, 0)):
        raw.readblocks(block, buf, 0)
        number = marks.get(bytes(buf), -1)
        if number in found:
            raise PinnedError(_path(folder, number) + ": found in two blocks; repeat with another random id")
        if number >= 0:
            found[number] = block
    for number in marks.values():
        if number not in found:
            raise PinnedError(_path(folder, number) + ": not on the raw device; give the one that is mounted there")
    return found


# --- Checks and map ---


def _mtime(path):
    return os.stat(path)[8] & 0xFFFFFFFF


def _check_file(raw, folder, entry):
    number, block, mtime = entry
    path = _path(folder, number)
    if not _exists(path):
        raise PinnedError(path + ": gone, and its block with it; release() and create() anew")
    if os.stat(path)[6] != _BLOCK_BYTES or _mtime(path) != mtime:
        raise PinnedError(path + ": was written or restored, so it has another block now; release() and create() anew")
    _compare(raw, path, block, _PAGE)


def _compare(raw, path, block, length):
    """The file and the raw block must read the same. The file is opened anew, since an open one has its own cache."""
    through, direct = bytearray(_PAGE), bytearray(_PAGE)
    with open(path, "rb") as file:
        for at in range(0, length, _PAGE):
            file.readinto(through)
            raw.readblocks(block, direct, at)
            if through != direct:
                raise PinnedError(path + ": is not in its block any more; release() and create() anew")


def _save_map(raw, folder, board, entries):
    data = struct.pack(_HEAD, b"OPIN", 1, 0, len(entries), raw.ioctl(_BLOCK_COUNT, 0), crc32(board))
    for number, block, mtime in entries:
        data += struct.pack(_ENTRY, number, block, mtime)
    with open(folder + "/map.new", "wb") as file:
        file.write(data + struct.pack("<I", crc32(data)))
    os.rename(folder + "/map.new", folder + "/map")
    os.remove(folder + "/unfinished")


def _load_map(raw, folder, board):
    """[(file number, block, mtime)] in ring order."""
    path = folder + "/map"
    with open(path, "rb") as file:
        data = file.read()
    end = len(data) - 4
    if end < _HEAD_BYTES or data[:5] != b"OPIN\x01" or struct.unpack("<I", data[end:])[0] != crc32(data[:end]):
        raise PinnedError(path + ": not a map of this version; release(force=True) and create() anew")
    _, _, _, count, device_blocks, board_crc = struct.unpack_from(_HEAD, data, 0)
    if board_crc != crc32(board) or device_blocks != raw.ioctl(_BLOCK_COUNT, 0) or end != _HEAD_BYTES + count * _ENTRY_BYTES:
        raise PinnedError(path + ": of another board or device; release(force=True) and create() anew")
    entries = [struct.unpack_from(_ENTRY, data, at) for at in range(_HEAD_BYTES, end, _ENTRY_BYTES)]
    for _, block, _ in entries:
        if block >= device_blocks:
            raise PinnedError(path + ": a block outside the device; release(force=True) and create() anew")
    return entries

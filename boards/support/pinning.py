"""Creates, extends and releases the blocks that `pinned.py` uses; detects an outbox that is gone.

A separate module, because a board needs it once, but RAM always.

create() writes files of 4,096 bytes, each of which begins with a marker, and searches the raw
device for the markers. Each change of the folder ends with the rename of the map, which littlefs
does atomically: a power cut leaves the old state or the new one, or files without a map beside
`unfinished`, where create() restarts. Blocks are erased on the raw device only if a file was just
found to own them.

An outbox that is gone: if its files are deleted or the filesystem is recreated, its blocks keep
their contents until littlefs uses them for something else. create_first() searches for them, so
that an outbox with messages is never silently replaced by an empty one. It cannot detect an earlier
outbox if littlefs has overwritten every block of it.

64 blocks take an RP2040 10 s, 7 of them flash operations at typical times, and a worn chip a
minute: if say() is passed as `tell`, a tool can wait for its next line (`outpost flash` does).
"""

import os
import struct
from binascii import crc32

from micropython import const

from support.pinned import (
    MAP_ENTRY,
    MAP_HEAD,
    PinnedBlocks,
    PinnedError,
    check_leftovers,
    compare,
    exists,
    load_map,
    mtime_of,
    names_in,
    numbers_in,
    path_of,
)

_BLOCK_BYTES = const(4096)
_PAGE = const(256)
_MARK = const(32)
_BLOCK_COUNT = const(4)
_BLOCK_SIZE = const(5)
_ERASE = const(6)
_EROFS = const(30)
_MOST_BLOCKS = const(4096)
_SPARE_BLOCKS = const(4)  # littlefs needs some to change a folder
# Steps. For the longest time between two lines, see
# tools/outpost_tools/boards/selftest/flash_time.py
_TOLD_EACH = const(4)


def say(done, total):
    """Print the line that `outpost flash` waits for. Steps: files written, blocks erased."""
    print("pinning", done, "of", total)


def create(raw, folder, count, random_id, board=b"", tell=None):
    """Pin `count` blocks (2 to 4096). Returns their device, erased: Outbox.mount() returns BLANK.

    May be repeated after a power cut.

    raw: the block device below the mounted littlefs. random_id: 8 random bytes, new at each call.
    board: distinguishes this board from others (machine.unique_id()). tell: callable that takes the
    steps done and the total, every 4 steps. Raises PinnedError, or OSError from the filesystem.
    """
    if not 2 <= count <= _MOST_BLOCKS or raw.ioctl(_BLOCK_SIZE, 0) != _BLOCK_BYTES:
        raise PinnedError("pinned: 2 to 4096 blocks of 4,096 bytes on a device with such blocks")
    names = names_in(folder)
    if "map" in names:
        raise PinnedError(
            folder + "/map: is there already; open_blocks() it, or release() it first"
        )
    check_leftovers(folder, names)
    if not exists(folder):
        os.mkdir(folder)
    tell = _Steps(tell, count)
    _begin(folder, names, [], tell)
    return _extend(PinnedBlocks(raw, folder, board, []), range(count), random_id, 0, tell)


def create_first(raw, folder, count, random_id, board=b"", tell=None):
    """As create(), for a start that found no files. Raises PinnedError if the flash contains parts
    of an earlier outbox, unless start_new() was called."""
    found = 0 if "unfinished" in names_in(folder) else len(remains(raw))
    if found:
        raise PinnedError(
            "%s: gone, but parts of an earlier outbox in %d blocks of the flash: its files were "
            "deleted, or the filesystem was made again. Nothing was changed. Save its messages "
            "with outpost outbox export --live PORT --raw --segments log --id rescue-1, then "
            "outpost outbox new --live PORT" % (folder, found)
        )
    return create(raw, folder, count, random_id, board, tell)


def remains(raw):
    """The blocks that begin like a sector of an outbox, of any version, or like its shelf."""
    found, buf = [], bytearray(_MARK)
    for block in range(raw.ioctl(_BLOCK_COUNT, 0)):
        raw.readblocks(block, buf, 0)
        # magic, version, alignment: `flash/ring.py`, `flash/shelf.py`
        if bytes(buf[:2]) in (b"OB", b"OS") and 0 < buf[2] < 16 and 2 <= buf[3] & 15 <= 8:
            found.append(block)
    return found


def start_new(folder):
    """Allow the next start to create an outbox, whatever is left of an earlier one. Raises
    PinnedError while there is one."""
    names = names_in(folder)
    if "map" in names:
        raise PinnedError(folder + "/map: is there; release() it first")
    if not exists(folder):
        os.mkdir(folder)
    with open(folder + "/unfinished", "wb"):
        pass


class ReadOnlyBlocks(PinnedBlocks):
    """The blocks that the map names, whether or not their files own them. Programs and erases raise
    OSError."""

    def own(self, index):
        pass

    def refuse_lost(self, index):
        raise OSError(_EROFS)

    def direct(self):
        return self, list(range(len(self.blocks)))


def read_only(raw, folder, board):
    """To save the messages if open_blocks() refuses. Raises PinnedError without a valid map."""
    if "map" not in names_in(folder):
        raise PinnedError(folder + "/map: not there")
    return ReadOnlyBlocks(raw, folder, board, load_map(raw, folder, board))


def grow(device, count, random_id, tell=None):
    """Pin `count` more blocks. Returns the new device.

    The old device refuses every call from now on: make and mount a new Outbox.

    The new blocks are inserted into the ring right after the head, because the outbox looks for
    older sectors in the blocks before it, and so every held sector keeps its neighbour. A power cut
    leaves the old ring or the new one. Raises the same as create().
    """
    device.check()
    if count < 1 or len(device.blocks) + count > _MOST_BLOCKS:
        raise PinnedError(device.folder + ": can grow to 4096 blocks")
    behind = device.newest() + 1
    known = [number for number, _, _ in device.entries]
    tell = _Steps(tell, count)
    _begin(device.folder, names_in(device.folder), known, tell)
    first = max(known) + 1
    grown = _extend(device, range(first, first + count), random_id, behind, tell)
    device.blocks.clear()  # an outbox may use the same list
    return grown


def release(folder, outbox=None, force=False):
    """Return the blocks to littlefs.

    Unless force, refuses if the mounted outbox holds messages or none is given. If a power cut
    interrupts it, create() or release() with force completes it. Without an outbox, its blocks stay
    as they are, and the next start will require start_new(). Raises PinnedError.
    """
    if not force and (outbox is None or not outbox.stream or outbox.next_seq != outbox.oldest_seq):
        raise PinnedError(
            folder + ": messages may be held; drain a mounted outbox and give it, or force=True"
        )
    if "map" in names_in(folder):
        os.rename(folder + "/map", folder + "/unfinished")  # from here on create() may restart
    if outbox:
        _blot_out(outbox._device)
    for number in numbers_in(names_in(folder)):
        os.remove(path_of(folder, number))
    for name in ("map.new", "unfinished"):
        if name in names_in(folder):
            os.remove(folder + "/" + name)
    if exists(folder) and not os.listdir(folder):
        os.rmdir(folder)


def _blot_out(device):
    """Overwrite the headers of an outbox's blocks, so that remains() does not find them."""
    zeros = bytes(_PAGE)
    for index in range(len(device.blocks)):
        device.writeblocks(index, zeros, 0)


class _Steps:
    """Reports the progress every few steps."""

    def __init__(self, tell, count):
        self._tell, self._total = tell, 2 * count
        self._done = self._cleared = 0

    def step(self):
        self._done += 1
        if self._done % _TOLD_EACH == 0:
            self._say()

    def cleared(self):
        """A file of an earlier attempt was removed: not a step, but it took time."""
        self._cleared += 1
        if self._cleared % _TOLD_EACH == 0:
            self._say()

    def _say(self):
        if self._tell:
            self._tell(self._done, self._total)


def _begin(folder, names, known, tell):
    """Mark the folder as being changed, and remove what an earlier attempt left."""
    with open(folder + "/unfinished", "wb"):
        pass
    for number in numbers_in(names):
        if number not in known:
            os.remove(path_of(folder, number))
            tell.cleared()


def _extend(device, numbers, random_id, behind, tell):
    """Write files, find and erase their blocks, insert them at index `behind`; save the map."""
    raw, folder = device.raw, device.folder
    free = os.statvfs(folder)[3]
    if free < len(numbers) + _SPARE_BLOCKS:
        raise PinnedError(
            "%s: %d blocks are free, %d are needed" % (folder, free, len(numbers) + _SPARE_BLOCKS)
        )
    marks = {}
    for number in numbers:
        marks[_write_marked(path_of(folder, number), random_id, number)] = number
        tell.step()
    found = _scan(raw, folder, marks)
    for number in numbers:
        compare(raw, path_of(folder, number), found[number], _BLOCK_BYTES)
    for number in numbers:
        raw.ioctl(_ERASE, found[number])
        tell.step()
    new = [(number, found[number], mtime_of(path_of(folder, number))) for number in numbers]
    entries = device.entries[:behind] + new + device.entries[behind:]
    _save_map(raw, folder, device.board, entries)
    return PinnedBlocks(raw, folder, device.board, entries)


def _write_marked(path, random_id, number):
    mark = (b"%04d" % number + random_id + b" outpost pinned block           ")[:_MARK]
    blank = b"\xff" * (_PAGE - len(mark))
    with open(path, "wb") as file:
        for _ in range(_BLOCK_BYTES // _PAGE):
            file.write(mark)
            file.write(blank)
    return mark


def _scan(raw, folder, marks):
    """{file number: block}, from a scan of every block of the device."""
    found, buf = {}, bytearray(_MARK)
    for block in range(raw.ioctl(_BLOCK_COUNT, 0)):
        raw.readblocks(block, buf, 0)
        number = marks.get(bytes(buf), -1)
        if number in found:
            raise PinnedError(
                path_of(folder, number) + ": found in two blocks; repeat with another random id"
            )
        if number >= 0:
            found[number] = block
    for number in marks.values():
        if number not in found:
            raise PinnedError(
                path_of(folder, number)
                + ": not on the raw device; give the one that is mounted there"
            )
    return found


def _save_map(raw, folder, board, entries):
    data = struct.pack(
        MAP_HEAD, b"OPIN", 1, 0, len(entries), raw.ioctl(_BLOCK_COUNT, 0), crc32(board)
    )
    for number, block, mtime in entries:
        data += struct.pack(MAP_ENTRY, number, block, mtime)
    with open(folder + "/map.new", "wb") as file:
        file.write(data + struct.pack("<I", crc32(data)))
    os.rename(folder + "/map.new", folder + "/map")
    os.remove(folder + "/unfinished")

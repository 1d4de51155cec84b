"""Creates, extends and releases what `pinned.py` uses; says when an outbox is gone.

A module of its own because a board needs it once, and RAM always.

create() writes files of 4,096 bytes, each of which begins with a marker, and looks for the markers
on the raw device. Each change of the folder ends with the rename of the map, which littlefs does
wholly or not at all: a power cut leaves the old state or the new, or files without a map beside
`unfinished`, where create() restarts. Blocks are erased past littlefs only when a file was just
found to own them.

An outbox that is gone: whoever deletes its files, or makes the filesystem again, leaves its blocks
in the flash as they are until littlefs uses them for something else. create_first() looks for them,
so that an outbox with messages is never replaced by an empty one in silence. What it cannot see: an
earlier outbox of which littlefs has overwritten each block.

64 blocks take an RP2040 10 s, 7 of them flash at typical times, and a worn chip a minute: pass
say() as `tell`, and a tool can wait for its next line (`outpost flash` does).
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
# steps: what may pass in between is in tools/outpost_tools/device/flash_time.py
_TOLD_EACH = const(4)


def say(done, total):
    """The line that `outpost flash` waits for and shows. Steps: files written, blocks erased."""
    print("pinning", done, "of", total)


def create(raw, folder, count, random_id, board=b"", tell=None):
    """Pin `count` blocks (2 to 4096) and give their device, erased: Outbox.mount() says BLANK.

    May be repeated after a power cut.

    raw: the block device under the mounted littlefs. random_id: 8 random bytes, new at each call.
    board: what distinguishes this board from others (machine.unique_id()). tell: callable, gets the
    steps done and in all, every 4 steps. Raises PinnedError, OSError of the filesystem.
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
    """As create(), for a start that found no files. PinnedError when the flash holds parts of an
    earlier outbox, unless start_new() was called."""
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
    """The blocks that begin as a sector of an outbox, of any version, or as its shelf."""
    found, buf = [], bytearray(_MARK)
    for block in range(raw.ioctl(_BLOCK_COUNT, 0)):
        raw.readblocks(block, buf, 0)
        # magic, version, alignment: `sectors.py`, `shelf.py`
        if bytes(buf[:2]) in (b"OB", b"OS") and 0 < buf[2] < 16 and 2 <= buf[3] & 15 <= 8:
            found.append(block)
    return found


def start_new(folder):
    """The next start may make an outbox, whatever is left of an earlier one. Raises PinnedError
    while there is one."""
    names = names_in(folder)
    if "map" in names:
        raise PinnedError(folder + "/map: is there; release() it first")
    if not exists(folder):
        os.mkdir(folder)
    with open(folder + "/unfinished", "wb"):
        pass


class ReadOnlyBlocks(PinnedBlocks):
    """The blocks that the map names, whether their files own them or not. Programs and erases raise
    OSError."""

    def own(self, index):
        pass

    def refuse_lost(self, index):
        raise OSError(_EROFS)

    def direct(self):
        return self, list(range(len(self.blocks)))


def read_only(raw, folder, board):
    """To save what is held when open_blocks() refuses. Raises PinnedError without a good map."""
    if "map" not in names_in(folder):
        raise PinnedError(folder + "/map: not there")
    return ReadOnlyBlocks(raw, folder, board, load_map(raw, folder, board))


def grow(device, count, random_id, tell=None):
    """Pin `count` more blocks. Returns the new device.

    The old one refuses every call from now on: make and mount a new Outbox.

    The new blocks come into the ring right after the head, because the outbox looks for older
    sectors in the blocks before it: every held sector keeps the neighbour that it has. Power cut:
    the old ring or the new one. Raises as create().
    """
    device.check()
    if count < 1 or len(device.entries) + count > _MOST_BLOCKS:
        raise PinnedError(device.folder + ": can grow to 4096 blocks")
    behind = device.newest() + 1
    known = [number for number, _, _ in device.entries]
    tell = _Steps(tell, count)
    _begin(device.folder, names_in(device.folder), known, tell)
    first = max(known) + 1
    grown = _extend(device, range(first, first + count), random_id, behind, tell)
    device.blocks.clear()  # an outbox may hold this very list
    device.entries.clear()
    return grown


def release(folder, outbox=None, force=False):
    """Give the blocks back to littlefs.

    Refuses while the mounted outbox holds messages, or none is given, unless force. After a power
    cut inside: create(), or release() with force, finish it. Without an outbox its blocks stay as
    they are, and a start will ask for start_new(). Raises PinnedError.
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
    """Make the headers of an outbox's blocks void, so that remains() does not find them."""
    zeros = bytes(_PAGE)
    for index in range(len(device.blocks)):
        device.writeblocks(index, zeros, 0)


class _Steps:
    """Tells every few steps how far it is."""

    def __init__(self, tell, count):
        self._tell, self._total = tell, 2 * count
        self._done = self._cleared = 0

    def step(self):
        self._done += 1
        if self._done % _TOLD_EACH == 0:
            self._say()

    def cleared(self):
        """A file of an earlier attempt is removed: no step, but time."""
        self._cleared += 1
        if self._cleared % _TOLD_EACH == 0:
            self._say()

    def _say(self):
        if self._tell:
            self._tell(self._done, self._total)


def _begin(folder, names, known, tell):
    """Say that the folder is being changed, and clear away what an earlier attempt left."""
    with open(folder + "/unfinished", "wb"):
        pass
    for number in numbers_in(names):
        if number not in known:
            os.remove(path_of(folder, number))
            tell.cleared()


def _extend(device, numbers, random_id, behind, tell):
    """New files, their blocks found and erased, in the ring from index `behind`; then the map."""
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
    """{file number: block} from a look at each block of the device."""
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

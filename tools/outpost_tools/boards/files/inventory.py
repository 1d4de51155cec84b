"""What is on the board: the SHA-256 of its files, which the board computes from the bytes in its
flash, and the free space."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from outpost_tools.boards.port.connection import Board

PACKAGE = "/outpost"  # ours alone; a user may have folders with the names of the others
DRIVERS = "/sensors"
SHARED = ("/station", "/support", DRIVERS)
ROOMS = (PACKAGE, *SHARED)
SECRETS = "/tls"
UPDATE = "/update"  # files of an update over the air that is in progress
OUTBOX_MAP = "/outbox/map"
_BLOCK_BYTES = 4096

# Each call sends a path only once. The buffer is reused, because a board has little heap.
_SCRIPT = """
import hashlib, os
from binascii import hexlify

buf = memoryview(bytearray(512))

def digest(path):
    h = hashlib.sha256()
    with open(path, "rb") as file:
        n = file.readinto(buf)
        while n:
            h.update(buf[:n])
            n = file.readinto(buf)
    return str(hexlify(h.digest()), "ascii")

def tell(path):
    try:
        if os.stat(path)[0] & 0x8000:
            print("H", digest(path), path)
    except OSError:
        pass

def tell_all(folder, with_rooms):
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        path = folder + "/" + name
        if with_rooms and os.stat(path)[0] & 0x4000:
            print("D", path)
            tell_all(path, True)
        else:
            tell(path)
"""


@dataclass(frozen=True, slots=True)
class Inventory:
    """hashes: path -> SHA-256 in hex. free_bytes: free space of the filesystem. rooms: folders
    inside /outpost."""

    hashes: dict[str, str]
    free_bytes: int
    rooms: frozenset[str] = frozenset()

    @property
    def is_pinned(self) -> bool:
        return OUTBOX_MAP in self.hashes


def take(
    board: Board, paths: Iterable[str], folders: Iterable[str] = (*ROOMS, SECRETS, UPDATE)
) -> Inventory:
    """Take the inventory of the named files that exist, and of all files in the folders. In
    /outpost this includes the folders inside it; a folder inside any other is the user's. Raises
    ToolError."""
    calls = [f"tell({path!r})" for path in paths]
    calls += [f"tell_all({folder!r}, {folder == PACKAGE})" for folder in folders]
    room = "s = os.statvfs('/')\nprint('S', s[0] * s[3])"
    hashes, free, rooms = {}, 0, set()
    for line in board.run("\n".join([_SCRIPT, *calls, room])):
        kind, _, rest = line.partition(" ")
        if kind == "H":
            digest, _, path = rest.partition(" ")
            hashes[path] = digest
        elif kind == "D":
            rooms.add(rest)
        elif kind == "S":
            free = int(rest)
    return Inventory(hashes, free, frozenset(rooms))


def blocks_of(data: bytes) -> int:
    """The maximum number of littlefs blocks that a file takes."""
    return max(1, -(-len(data) // _BLOCK_BYTES))


def free_blocks(inventory: Inventory) -> int:
    return inventory.free_bytes // _BLOCK_BYTES

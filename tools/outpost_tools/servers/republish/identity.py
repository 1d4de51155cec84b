"""The names by which Home Assistant distinguishes boards and entities.

Law: no two boards have the same object id, and no two readings have the same unique id. A name
keeps the short form that it always had, unless another name has the same one, so that existing
entities in Home Assistant do not change. If two boards announced the same id in an earlier version,
the one with the longer name keeps it, and the other gets its entity when Home Assistant restarts.
A device of a mapping always has the long forms, which no board's can be. Pure.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import zlib
from collections.abc import Iterator, Mapping

from outpost_tools.readings.sources.idents import is_ident, shown
from outpost_tools.servers.republish.newest import Board

_OURS = "outpost_"
_MAY_BE_DOTTED = re.compile(r"(.*)-([0-9a-f]{8})\Z")
_MOST_PLAIN = 32  # characters of another device's name, for people; the digest distinguishes it
_MOST_MARKS = 8  # a name with more always has the long form, without a search for a namesake


def object_id(device: str) -> str:
    """Home Assistant accepts no full stop in a topic. So the short form of a name with a full stop
    ends in a checksum. The long form is longer than any name, so no other board can have it."""
    if is_ident(device):
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", shown(device))[:_MOST_PLAIN]
        return f"{plain}-{hashlib.sha256(device.encode()).hexdigest()}"
    short = _short(device)
    if not _has_namesake(device, short):
        return short
    digest = hashlib.sha256(device.encode()).hexdigest()
    return f"{device.replace('.', '-')}-{digest}"


def _short(device: str) -> str:
    if "." not in device:
        return device
    return f"{device.replace('.', '-')}-{zlib.crc32(device.encode()):08x}"


def _has_namesake(device: str, short: str) -> bool:
    """Whether another name, with full stops, has the same short form."""
    found = _MAY_BE_DOTTED.match(short)
    if found is None:
        return False
    head, checksum = found[1], int(found[2], 16)
    if head.count("-") > _MOST_MARKS:
        return True
    parts = head.split("-")
    for marks in itertools.product("-.", repeat=len(parts) - 1):
        name = "".join(map("".join, zip(parts, (*marks, ""), strict=True)))
        if "." in marks and name != device and zlib.crc32(name.encode()) == checksum:
            return True
    return False


def unique_id(board: Board, reading: str, boards: Mapping[str, Board]) -> str:
    """`garden` with `2_temperature` and `garden_2` with `temperature` have the same short form. It
    belongs to the board that has it already; if both do, to the board with the longer name. The
    long form begins differently, and no board's name has a slash."""
    if is_ident(board.name):
        return f"outpost/{board.name}/{reading}"
    short, long = f"{_OURS}{board.name}_{reading}", f"outpost/{board.name}/{reading}"
    held = board.components.get(reading, {}).get("unique_id")
    if held == long:
        return long
    others = [len(one.name) for one in _holders(short, boards) if one is not board]
    is_ours = not others or (held == short and len(board.name) > max(others))
    return short if is_ours else long


def _holders(short: str, boards: Mapping[str, Board]) -> Iterator[Board]:
    names = short.removeprefix(_OURS)
    for place in (at for at, character in enumerate(names) if character == "_"):
        board = boards.get(names[:place])
        component = board.components.get(names[place + 1 :]) if board else None
        if board and component and component.get("unique_id") == short:
            yield board

"""The mappings by which rounds have read other people's messages, kept beside the tables.

Law: a mapping's text is there before the first round by it, and never changes; so a round that is
repeated reads what it read the first time, whatever mapping the repetition was given. A run without
one goes on with that of the last round.
"""

from __future__ import annotations

import hashlib

from outpost_tools.errors import ToolError
from outpost_tools.readings.pipeline import delta, plan
from outpost_tools.store.base import Store

FOLDER = "sources"
_BITS = 62  # of a number: Delta's integers have a sign


def number_of(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 64 - _BITS


def keep(tables_dir: Store, text: str) -> int:
    """Its number."""
    number, folder = number_of(text), tables_dir / FOLDER
    if not folder.exists(_name(number)):
        folder.put(_name(number), text.encode())
    return number


def current(opened: delta.Opened) -> int:
    """The number of the last round's, or of reread.py's; -1: it had none."""
    return delta.reached(opened["quarantine"], plan.MAPPING)


def chosen(opened: delta.Opened, given: int | None) -> int:
    """The number of the mapping for the next round."""
    return current(opened) if given is None else given


def text(tables_dir: Store, number: int) -> str:
    """ "" for -1. Raises ToolError."""
    if number < 0:
        return ""
    try:
        return (tables_dir / FOLDER).get(_name(number)).decode()
    except FileNotFoundError:
        raise ToolError(
            f"{tables_dir / FOLDER}/{_name(number)} is missing: the mapping that the tables were "
            "made with; put it back, or give a mapping: --sources FILE"
        ) from None


def _name(number: int) -> str:
    return f"{number:016x}.toml"

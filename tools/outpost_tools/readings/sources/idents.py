"""How the devices of a mapping are called where Outpost's boards are called by their names: in
topics, addresses, keys of alerts and labels of metrics. Pure.

Law: no device has the identifier of a board, nor of another device. `other:` begins it, and no
board's name has a colon. A character that a SenML name must not have becomes `:` and two digits for
each of its bytes, as a URL has `%20`; so does a colon that could be taken for one of these. A page
shows the device's own name.
"""

from __future__ import annotations

import re

PREFIX = "other:"
_UNSAFE = re.compile(rb"[^A-Za-z0-9_.:-]|:(?=[0-9a-f]{2})")
_ESCAPE = re.compile(rb":([0-9a-f]{2})")


def ident(device: str) -> str:
    """Of a device with this name: one topic level, also a part of a URL and of a SenML name."""
    return PREFIX + escaped(device)


def is_ident(text: str) -> bool:
    return text.startswith(PREFIX) and ident(shown(text)) == text


def shown(board: str) -> str:
    """The name of a board or a device, from what identifies it."""
    if not board.startswith(PREFIX):
        return board
    data = board.removeprefix(PREFIX).encode("utf-8", "replace")
    return _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), data).decode(
        "utf-8", "replace"
    )


def escaped(name: str) -> str:
    """The name with the characters of a SenML name only (RFC 8428, section 4.5.1)."""
    data = name.encode("utf-8", "replace")
    return _UNSAFE.sub(lambda found: b":%02x" * len(found[0]) % tuple(found[0]), data).decode()

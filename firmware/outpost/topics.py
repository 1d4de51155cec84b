"""Checks what is checked only once: topic filters, and the texts of CONNECT. Unloaded after use
(`memory.unload`).

`reader.is_topic` alone checks the topics of messages, which come by the thousand. Must not know a
session. Allocation: copies of the text.
"""

from outpost.text import is_topic


def is_text(text: bytes) -> bool:
    """True when `text` may go into a packet as a string: well-formed UTF-8 without NUL, up to
    65,535 bytes (1.5.3). It may be empty."""
    text = text.replace(b"+", b"-").replace(b"#", b"-")
    return len(text) <= 65_535 and is_topic(text, 0, len(text))


def is_filter(text: bytes) -> bool:
    """True when `text` is a topic filter (4.7): a wildcard fills its level, # is the last one;
    levels may be empty. In $share/NAME/FILTER, neither name nor filter is empty."""
    if not text or not is_text(text):
        return False
    levels = text.split(b"/")
    if levels[0] == b"$share":
        if len(levels) < 3 or not levels[1] or levels[1] in b"+#" or levels[2:] == [b""]:
            return False
    for level in levels:
        if len(level) > 1 and (b"+" in level or b"#" in level):
            return False
    return b"#" not in levels[:-1]

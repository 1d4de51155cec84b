"""Checks the text of a topic, which comes with every message. `topics.py` has what is checked once.

Must not know a packet. Allocation: none.
"""


def is_topic(buf, at, end):
    """True when buf[at:end] is a topic: well-formed UTF-8 without NUL, shortest forms, no
    surrogates, up to U+10FFFF (1.5.3), and no wildcard (3.3.2)."""
    more = least = code = 0
    while at < end:
        byte = buf[at]
        at += 1
        if more:
            code = code << 6 | byte ^ 0x80
            more -= 1
            is_wrong = code < least or 0xD800 <= code < 0xE000 or code > 0x10FFFF
            if byte & 0xC0 != 0x80 or (not more and is_wrong):
                return False
        elif byte > 127:
            more = (byte > 0xDF) + (byte > 0xEF) + 1
            least = 1 << 5 * more + 1
            code = byte & 0x3F >> more
            if byte < 0xC2 or byte > 0xF4:
                return False
        elif not byte or byte == 0x23 or byte == 0x2B:
            return False
    return not more

"""What is promised for a message: the words of the column `guarantee`, and how copies are
recognised.

From the broker on, every message counts exactly once: the collector acknowledges it after fsync,
and drops a copy that the broker retransmits only if packet identifier, DUP and bytes are those of
the last frame under that identifier. What happens before the broker, on the sender's side, is what
these words are about. Only Outpost's boards number their messages, so only theirs have gaps and
confirmations.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from outpost_tools.messages import labels

if TYPE_CHECKING:
    from outpost_tools.readings.sources.result import Message

OUTPOST = labels.GUARANTEE
IDENTIFIER = "once by identifier"  # the sender's own: a copy from the device has the same
TIME = "once by time and contents"  # a copy has the device's time and the same bytes
NONE = "at least once"  # two equal messages may be two readings, or one sent twice

MEANING = {
    OUTPOST: "an Outpost board: from its flash to the table exactly once; a missing one is a gap",
    IDENTIFIER: "exactly once from the device on, by the identifier that it gives each message",
    TIME: "exactly once from the device on, unless two messages have the same time and contents",
    NONE: "exactly once from the broker on; if the device sends a message twice, it counts twice",
}
DIGEST_BYTES = 16


def of(native_id: str | None, *, has_time: bool) -> str:
    if native_id is not None:
        return IDENTIFIER
    return TIME if has_time else NONE


def identity(message: Message, topic: bytes, payload: bytes) -> bytes | None:
    """The same for each copy of a message, and for no other; None if only its place in the log
    identifies it.

    It does not depend on how values are read, so a mended mapping finds the same copies.
    """
    if message.guarantee == IDENTIFIER:
        said = b"id\0%b\0%b" % (message.source.encode(), (message.native_id or "").encode())
    elif message.guarantee == TIME:
        said = b"bytes\0%b\0%b" % (topic, payload)  # no topic has a NUL, nor has a source
    else:
        return None
    return hashlib.blake2b(said, digest_size=DIGEST_BYTES).digest()

"""is_foreign(): whether a frame of the log is for a mapping, or from one of Outpost's boards. Pure.

The law, the same for the collector and for each reader of its log: a message is for the mapping if
the mapping has its topic, and if its payload has no board's key under that topic. A key wins over
any topic, because a start of the collector reads keys from the log and confirms their numbers. The
collector stores no key under a topic of the mapping, unless that topic is also a board's own. So a
log that was filled before the mapping existed is read as it always was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outpost_tools.messages import series
from outpost_tools.messages.message import is_cbor, key_of

if TYPE_CHECKING:
    from outpost_tools.readings.sources.mapping import Mapping


def is_foreign(mapping: Mapping, topic: bytes, payload: bytes) -> bool:
    """Whether decode.of_frame() is to read this message. Otherwise it is read as a board's."""
    return mapping.has(topic) and not has_key(topic, payload)


def has_key(topic: bytes, payload: bytes) -> bool:
    """Whether a board's key is in it: device, stream and number."""
    return _may_have_key(payload) and key_of(topic, payload) is not None


def _may_have_key(payload: bytes) -> bool:
    """False only for what has none for sure: the label `sid` is not in it, neither plain nor in
    another encoding or with escapes, and it is neither CBOR nor a series. Nearly all other people's
    messages end here, without the search for a key."""
    is_binary = is_cbor(payload) or series.is_series(payload)
    return is_binary or b"sid" in payload or b"\\" in payload or b"\0" in payload
